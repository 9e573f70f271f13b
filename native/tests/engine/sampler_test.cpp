#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/philox.h"
#include "vectors.h"

namespace meshnet {
namespace {

using Json = nlohmann::json;

v1::Sampling SamplingOf(const Json& terms) {
  v1::Sampling sampling;
  sampling.set_temperature(terms.at("temperature"));
  sampling.set_top_p(terms.at("top_p"));
  sampling.set_top_k(terms.at("top_k"));
  sampling.set_min_p(terms.at("min_p"));
  sampling.set_seed(terms.at("seed"));
  sampling.set_presence_penalty(terms.at("presence_penalty"));
  sampling.set_frequency_penalty(terms.at("frequency_penalty"));
  for (const Json& bias : terms.at("logit_bias"))
    (*sampling.mutable_logit_bias())[bias.at("token_id")] = bias.at("bias");
  sampling.set_choice(terms.at("choice"));
  sampling.set_logprobs(true);
  return sampling;
}

TEST(SamplerVectorsTest, Philox) {
  const Json vectors = LoadVectors("sampling.json");
  ASSERT_GT(vectors.at("philox").size(), 0u);
  for (const Json& vector : vectors.at("philox")) {
    EXPECT_EQ(Philox4x32(vector.at("counter"), vector.at("key")),
              (vector.at("words").get<std::array<std::uint32_t, 4>>()));
  }
  ASSERT_GT(vectors.at("uniform").size(), 0u);
  for (const Json& vector : vectors.at("uniform")) {
    EXPECT_EQ(UniformDraw(vector.at("seed"), vector.at("position"), vector.at("choice")),
              vector.at("uniform").get<double>());
  }
}

TEST(SamplerVectorsTest, TokensAndLogprobs) {
  const Json vectors = LoadVectors("sampling.json").at("samples");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    v1::Sampling sampling = SamplingOf(vector.at("terms"));
    sampling.set_top_logprobs(static_cast<std::uint32_t>(vector.at("top").size()));
    std::vector<std::uint32_t> committed;
    for (const Json& entry : vector.at("counts")) {
      committed.insert(committed.end(), entry.at("count").get<std::size_t>(), entry.at("token_id"));
    }
    const auto logits = vector.at("logits").get<std::vector<float>>();
    ASSERT_TRUE(CheckSampling(sampling, static_cast<std::uint32_t>(logits.size())).ok());
    Sampler sampler(sampling, committed);
    const SampledToken token = sampler.Sample(logits, vector.at("position"));
    EXPECT_EQ(token.token_id, vector.at("token_id").get<std::uint32_t>());
    EXPECT_NEAR(*token.logprob, vector.at("logprob").get<double>(), 1e-5);
    ASSERT_EQ(token.top.size(), vector.at("top").size());
    for (std::size_t i = 0; i < token.top.size(); ++i) {
      EXPECT_EQ(token.top[i].token_id(), vector.at("top")[i].at("token_id").get<std::uint32_t>());
      EXPECT_NEAR(token.top[i].logprob(), vector.at("top")[i].at("logprob").get<double>(), 1e-5);
    }
  }
}

TEST(SamplerTest, ReplaysFromTheKeyAlone) {
  v1::Sampling sampling;
  sampling.set_temperature(1.0);
  sampling.set_top_p(1.0);
  sampling.set_seed(42);
  std::vector<float> logits(1000, 0.0f);
  Sampler first(sampling, {});
  Sampler second(sampling, {});
  std::vector<std::uint32_t> drawn;
  for (std::uint64_t position = 0; position < 50; ++position) drawn.push_back(first.Sample(logits, position).token_id);
  for (std::uint64_t position = 50; position-- > 0;) {
    EXPECT_EQ(second.Sample(logits, position).token_id, drawn[position]);
  }
}

// Without settings the largest logit is found in one pass; with a bias of 0 it is not. Both give the smaller id of
// equals.
TEST(SamplerTest, FindsTheLargestLogitWhereverItStands) {
  v1::Sampling biased;
  (*biased.mutable_logit_bias())[0] = 0.0;
  for (const std::size_t size : {1u, 15u, 16u, 17u, 32u, 50u}) {
    for (std::size_t largest = 0; largest < size; ++largest) {
      std::vector<float> logits(size, -2.0f);
      logits[largest] = -1.0f;
      logits[size - 1] = -1.0f;  // an equal one behind it
      Sampler fast({}, {});
      Sampler slow(biased, {});
      EXPECT_EQ(fast.Sample(logits, 1).token_id, largest) << size;
      EXPECT_EQ(slow.Sample(logits, 1).token_id, largest) << size;
    }
  }
}

TEST(SamplerTest, RefusesWhatCannotBeUsed) {
  v1::Sampling sampling;
  sampling.set_temperature(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(CheckSampling(sampling, 10).code(), Code::kMalformed);
  sampling.set_temperature(1.0);
  sampling.set_top_p(1.5);
  EXPECT_EQ(CheckSampling(sampling, 10).code(), Code::kMalformed);
  sampling.set_top_p(1.0);
  sampling.set_top_logprobs(21);
  EXPECT_EQ(CheckSampling(sampling, 10).code(), Code::kMalformed);
  sampling.set_top_logprobs(0);
  (*sampling.mutable_logit_bias())[10] = 1.0;
  EXPECT_EQ(CheckSampling(sampling, 10).code(), Code::kBadTokenId);
}

}  // namespace
}  // namespace meshnet
