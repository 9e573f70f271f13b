// Shards in a chain against the whole model, for every engine: equal logits, bit for bit, at equal batch shapes.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/engines_under_test.h"

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

// Hidden rows of a head, of slices of the given sequences in the given order; slice i has `rows[i]` rows, tokens of
// which depend on its sequence alone.
std::vector<Rows> HeadRows(ShardEngine* head, const std::vector<SequenceId>& order,
                           const std::vector<std::uint32_t>& rows) {
  std::vector<Tokens> tokens(order.size());
  std::vector<StepSlice> slices(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t position = head->Length(order[i]);
    for (std::uint32_t row = 0; row < rows[i]; ++row) {
      tokens[i].push_back(
          static_cast<std::uint32_t>(50 * (order[i] + 1) + static_cast<int>(position) + static_cast<int>(row)));
    }
    slices[i].sequence = order[i];
    slices[i].position = position;
    slices[i].rows = rows[i];
    slices[i].token_ids = tokens[i];
  }
  std::vector<StepResult> results;
  EXPECT_TRUE(head->Step(slices, &results).ok());
  std::vector<Rows> hidden;
  for (const StepResult& result : results) {
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    hidden.emplace_back(result.hidden.begin(), result.hidden.end());
  }
  return hidden;
}

TEST_P(ShardChainTest, SlicesInAnyOrderKeepTheirOwnHiddenRows) {
  LoadPlan plan = GetParam().plan;
  plan.layers = {0, Layers() / 2};
  const std::unique_ptr<ShardEngine> alone = std::move(GetParam().load(plan, GoOn).value());
  const std::unique_ptr<ShardEngine> together = std::move(GetParam().load(plan, GoOn).value());
  for (SequenceId sequence = 0; sequence < 4; ++sequence) {
    ASSERT_TRUE(alone->Open(sequence).ok());
    ASSERT_TRUE(together->Open(sequence).ok());
  }
  struct Case {
    std::vector<SequenceId> order;
    std::vector<std::uint32_t> rows;
  };
  const Case cases[] = {{{0, 1, 2, 3}, {1, 1, 1, 1}},
                        {{0, 2, 1}, {1, 1, 1}},
                        {{3, 1, 2, 0}, {1, 1, 1, 1}},
                        {{2, 0}, {1, 1}},
                        {{1, 0, 2}, {3, 1, 2}},
                        {{0, 1}, {1, 4}},
                        {{3, 0, 1}, {2, 2, 5}},
                        {{2, 3, 0, 1}, {1, 7, 1, 3}},
                        {{1, 3}, {2, 1}}};
  int compared = 0;
  for (const Case& one : cases) {
    const std::vector<Rows> got = HeadRows(together.get(), one.order, one.rows);
    for (std::size_t i = 0; i < one.order.size(); ++i) {
      const Rows expected = HeadRows(alone.get(), {one.order[i]}, {one.rows[i]})[0];
      EXPECT_TRUE(SameBits(got[i], expected)) << "case " << &one - cases << ", slice " << i;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 27);
}

INSTANTIATE_TEST_SUITE_P(Engines, ShardChainTest, testing::ValuesIn(EnginesUnderTest()),
                         [](const auto& engine) { return engine.param.name; });

}  // namespace
}  // namespace meshnet
