// Shards in a chain against the whole model, for every engine: equal logits, bit for bit, at equal batch shapes.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#include "engines_under_test.h"

namespace meshnet {
namespace {

using Tokens = std::vector<std::uint32_t>;
using Rows = std::vector<float>;

constexpr std::uint32_t kPromptRows = 23;
constexpr std::uint32_t kDecodeSteps = 12;

// Engines whose layers follow each other; one sequence, number 0 on each.
class Chain {
 public:
  // `cuts` are the layers where a shard ends and the next begins.
  Chain(const EngineUnderTest& engine, std::vector<std::uint32_t> cuts) {
    cuts.push_back(0);  // all that is left
    std::uint32_t begin = 0;
    for (const std::uint32_t end : cuts) {
      LoadPlan plan = engine.plan;
      plan.layers = {begin, end};
      Result<std::unique_ptr<ShardEngine>> loaded = engine.load(plan, GoOn);
      EXPECT_TRUE(loaded.ok()) << loaded.status().message();
      if (!loaded.ok()) return;
      shards_.push_back(std::move(loaded.value()));
      EXPECT_TRUE(shards_.back()->Open(0).ok());
      begin = end;
    }
  }

  const ShardFacts& tail() const { return shards_.back()->facts(); }
  const std::vector<std::unique_ptr<ShardEngine>>& shards() const { return shards_; }

  // Logits of the last row. `noise` scales every value on the seams by (1 + noise).
  Rows Step(const Tokens& tokens, float noise = 0.0f) {
    Rows hidden;
    const auto last = static_cast<std::uint32_t>(tokens.size() - 1);
    for (const auto& shard : shards_) {
      StepSlice slice;
      slice.position = shard->Length(0);
      slice.rows = static_cast<std::uint32_t>(tokens.size());
      if (shard->facts().is_head()) slice.token_ids = tokens;
      slice.hidden = hidden;
      if (shard->facts().is_tail()) slice.logits_rows = {&last, 1};
      std::vector<StepResult> results;
      EXPECT_TRUE(shard->Step({&slice, 1}, &results).ok());
      if (noise != 0.0f && !results.at(0).status.ok()) return {};  // FakeEngine knows its own rows
      EXPECT_TRUE(results.at(0).status.ok()) << results.at(0).status.message();
      if (shard->facts().is_tail()) return {results[0].logits.begin(), results[0].logits.end()};
      hidden.assign(results[0].hidden.begin(), results[0].hidden.end());
      EXPECT_EQ(hidden.size(), tokens.size() * shard->facts().output_width);
      for (float& value : hidden) value *= 1.0f + noise;
    }
    return {};
  }

 private:
  std::vector<std::unique_ptr<ShardEngine>> shards_;
};

Tokens Prompt(std::uint32_t vocabulary) {
  Tokens tokens(kPromptRows);
  for (std::uint32_t i = 0; i < kPromptRows; ++i) tokens[i] = (i * 7919 + 17) % vocabulary;
  return tokens;
}

bool SameBits(const Rows& left, const Rows& right) {
  return left.size() == right.size() && !left.empty() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

struct Compared {
  int rows = 0;
  int mismatched = 0;
};

// The prompt, then single rows of fixed tokens, so that both sides compute the same steps whatever they give.
Compared Compare(const EngineUnderTest& engine, const std::vector<std::uint32_t>& cuts, float noise) {
  Chain whole(engine, {});
  Chain chain(engine, cuts);
  Compared compared;
  Tokens tokens = Prompt(whole.tail().contract.vocab_size());
  for (std::uint32_t step = 0; step <= kDecodeSteps; ++step) {
    const Rows expected = whole.Step(tokens);
    ++compared.rows;
    compared.mismatched += SameBits(expected, chain.Step(tokens, noise)) ? 0 : 1;
    tokens = {(step * 104729 + 5) % whole.tail().contract.vocab_size()};
  }
  return compared;
}

class ShardChainTest : public testing::TestWithParam<EngineUnderTest> {
 protected:
  std::uint32_t Layers() const { return GetParam().load(GetParam().plan, GoOn).value()->facts().contract.n_layers(); }
};

TEST_P(ShardChainTest, TwoAndThreeShardsEqualTheWholeModel) {
  const std::uint32_t layers = Layers();
  const std::vector<std::vector<std::uint32_t>> cuts = {
      {layers / 2}, {1}, {layers - 1}, {1, layers - 1}, {layers / 3, layers / 2}};
  int rows = 0;
  for (const auto& cut : cuts) {
    const Compared compared = Compare(GetParam(), cut, 0.0f);
    EXPECT_EQ(compared.mismatched, 0) << "first cut at " << cut[0];
    rows += compared.rows;
  }
  std::cout << GetParam().name << ": " << cuts.size() << " cuts, " << rows << " rows\n";
  EXPECT_EQ(rows, static_cast<int>(cuts.size()) * (1 + static_cast<int>(kDecodeSteps)));
}

TEST_P(ShardChainTest, TheControlWithNoiseOnTheSeamDiffers) {
  EXPECT_GT(Compare(GetParam(), {Layers() / 2}, 1e-6f).mismatched, 0);
}

TEST_P(ShardChainTest, AShardTellsItsSeams) {
  const std::uint32_t layers = Layers();
  const Chain chain(GetParam(), {1, layers - 1});
  ASSERT_EQ(chain.shards().size(), 3u);
  const ShardFacts& head = chain.shards()[0]->facts();
  const ShardFacts& middle = chain.shards()[1]->facts();
  const ShardFacts& tail = chain.shards()[2]->facts();
  EXPECT_TRUE(head.is_head() && !head.is_tail());
  EXPECT_TRUE(!middle.is_head() && !middle.is_tail());
  EXPECT_TRUE(tail.is_tail() && !tail.is_head());
  EXPECT_EQ(head.output_width, middle.input_width);
  EXPECT_EQ(middle.output_width, tail.input_width);
  EXPECT_EQ(head.contract.contract_digest(), tail.contract.contract_digest());
  EXPECT_EQ(middle.contract.inputs(0).elements_per_row(), head.output_width);
  EXPECT_TRUE(head.contract.needs_token_ids());
}

INSTANTIATE_TEST_SUITE_P(Engines, ShardChainTest, testing::ValuesIn(EnginesUnderTest()),
                         [](const auto& engine) { return engine.param.name; });

}  // namespace
}  // namespace meshnet
