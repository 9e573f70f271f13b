#include "engine/fake_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "engine/sampler.h"
#include "vectors.h"

namespace meshnet {
namespace {

using Json = nlohmann::json;

std::unique_ptr<ShardEngine> Load(const Json& model, std::uint32_t layer_begin, std::uint32_t layer_end) {
  LoadPlan plan;
  plan.fake_layers = model.at("n_layers");
  plan.fake_width = model.at("width");
  plan.layers = {layer_begin, layer_end};
  Result<std::unique_ptr<ShardEngine>> engine = FakeEngine::Load(plan, [](float) { return true; });
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_TRUE(engine.value()->Open(0).ok());
  return std::move(engine.value());
}

StepResult RunRows(ShardEngine* engine, std::span<const std::uint32_t> tokens, std::span<const float> hidden,
                   bool wants_logits) {
  StepSlice slice;
  slice.position = engine->Length(0);
  slice.rows = static_cast<std::uint32_t>(engine->facts().is_head() ? tokens.size()
                                                                    : hidden.size() / engine->facts().input_width);
  slice.token_ids = tokens;
  slice.hidden = hidden;
  std::uint32_t row = slice.rows - 1;
  if (wants_logits) slice.logits_rows = {&row, 1};
  std::vector<StepResult> results;
  EXPECT_TRUE(engine->Step({&slice, 1}, &results).ok());
  EXPECT_TRUE(results.at(0).status.ok()) << results.at(0).status.message();
  return results.at(0);
}

TEST(FakeEngineVectorsTest, RowsAfterEveryLayer) {
  int compared = 0;
  const Json models = LoadVectors("fake_engine.json").at("models");
  for (const Json& model : models) {
    SCOPED_TRACE(model.at("name").get<std::string>());
    const auto prompt = model.at("prompt").get<std::vector<std::uint32_t>>();
    std::vector<float> rows;
    std::uint32_t layer = 0;
    for (const Json& after : model.at("after_layer")) {
      const std::uint32_t layer_end = after.at("layer_end");
      if (layer_end == model.at("n_layers").get<std::uint32_t>()) break;  // a tail gives logits
      const std::unique_ptr<ShardEngine> engine = Load(model, layer, layer_end);
      const StepResult result =
          RunRows(engine.get(), layer == 0 ? std::span(prompt) : std::span<const std::uint32_t>(), rows, false);
      rows.assign(result.hidden.begin(), result.hidden.end());
      std::vector<float> expected;
      for (const Json& row : after.at("rows")) {
        for (const Json& value : row) expected.push_back(value.get<float>());
      }
      EXPECT_EQ(rows, expected);
      ++compared;
      layer = layer_end;
    }
    const std::unique_ptr<ShardEngine> tail = Load(model, layer, model.at("n_layers"));
    const StepResult result =
        RunRows(tail.get(), layer == 0 ? std::span(prompt) : std::span<const std::uint32_t>(), rows, true);
    EXPECT_EQ(std::vector<float>(result.logits.begin(), result.logits.end()),
              model.at("logits_of_last_row").get<std::vector<float>>());
  }
  EXPECT_GT(compared, 0);
}

std::vector<std::uint32_t> Generate(const Json& model, const v1::Sampling& sampling, std::size_t max_tokens) {
  const std::unique_ptr<ShardEngine> engine = Load(model, 0, model.at("n_layers"));
  Sampler sampler(sampling, {});
  auto tokens = model.at("prompt").get<std::vector<std::uint32_t>>();
  std::vector<std::uint32_t> generated;
  while (generated.size() < max_tokens) {
    const StepResult result = RunRows(engine.get(), tokens, {}, true);
    tokens = {sampler.Sample(result.logits, engine->Length(0)).token_id};
    generated.push_back(tokens[0]);
    if (tokens[0] == 257) break;
  }
  return generated;
}

TEST(FakeEngineVectorsTest, GreedyAndSampledGenerations) {
  int compared = 0;
  const Json models = LoadVectors("fake_engine.json").at("models");
  for (const Json& model : models) {
    SCOPED_TRACE(model.at("name").get<std::string>());
    const Json& greedy = model.at("greedy");
    EXPECT_EQ(Generate(model, {}, greedy.at("max_tokens")), greedy.at("token_ids").get<std::vector<std::uint32_t>>());
    const Json& sampled = model.at("sampled");
    v1::Sampling sampling;
    sampling.set_temperature(sampled.at("temperature"));
    sampling.set_top_p(sampled.at("top_p"));
    sampling.set_seed(sampled.at("seed"));
    EXPECT_EQ(Generate(model, sampling, sampled.at("max_tokens")),
              sampled.at("token_ids").get<std::vector<std::uint32_t>>());
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(FakeEngineTest, StepTakesItsOwnTimeAndThatOfItsRows) {
  LoadPlan plan;
  plan.layers = {0, 2};
  plan.fake_step_us = 1'000;         // a row, a layer
  plan.fake_step_fixed_us = 10'000;  // a step
  const auto engine = FakeEngine::Load(plan, [](float) { return true; });
  ASSERT_TRUE(engine.ok());
  ASSERT_TRUE(engine.value()->Open(0).ok());
  for (const std::size_t rows : {1u, 5u}) {
    const std::vector<std::uint32_t> tokens(rows, 65);
    const auto begin = std::chrono::steady_clock::now();
    RunRows(engine.value().get(), tokens, {}, false);
    const auto taken = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(taken, std::chrono::milliseconds(10 + 2 * rows));
  }
}

TEST(FakeEngineTest, HiddenRowsThatNoLayerGivesAreRefusedAndOthersRun) {
  LoadPlan plan;
  plan.layers = {2, 4};
  const std::unique_ptr<ShardEngine> engine = std::move(FakeEngine::Load(plan, [](float) { return true; }).value());
  EXPECT_FALSE(engine->facts().is_head());
  ASSERT_TRUE(engine->Open(0).ok());
  ASSERT_TRUE(engine->Open(1).ok());
  int refused = 0;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f, 65537.0f, 1e30f}) {
    std::vector<float> rows(16, 7.0f);
    std::vector<float> bad_rows = rows;
    bad_rows[15] = bad;
    StepSlice slices[2];
    for (SequenceId sequence = 0; sequence < 2; ++sequence) {
      slices[sequence].sequence = sequence;
      slices[sequence].position = engine->Length(sequence);
      slices[sequence].rows = 1;
      slices[sequence].hidden = sequence == 0 ? bad_rows : rows;
    }
    std::vector<StepResult> results;
    ASSERT_TRUE(engine->Step(slices, &results).ok());
    EXPECT_EQ(results[0].status.code(), Code::kNotFinite);
    EXPECT_TRUE(results[1].status.ok());
    ++refused;
  }
  EXPECT_EQ(engine->Length(0), 0u);
  EXPECT_EQ(engine->Length(1), static_cast<std::uint64_t>(refused));
}

}  // namespace
}  // namespace meshnet
