// What every engine must do, whatever computes its layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/engines_under_test.h"

namespace meshnet {
namespace {

using Tokens = std::vector<std::uint32_t>;
using Logits = std::vector<float>;

const Tokens kPrompts[] = {{1, 72, 101, 108, 108, 111, 32, 119}, {1, 65, 66}, {5, 9, 200, 31, 7}};

std::uint32_t ArgMax(const Logits& logits) {
  return static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

class ShardEngineContract : public testing::TestWithParam<EngineUnderTest> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<ShardEngine>> loaded = GetParam().load(GetParam().plan, GoOn);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    engine_ = std::move(loaded.value());
  }

  // Rows with logits of the last one.
  struct Rows {
    SequenceId sequence;
    Tokens tokens;
  };

  std::vector<Logits> Step(const std::vector<Rows>& rows) {
    std::vector<std::uint32_t> last(rows.size());
    std::vector<StepSlice> slices(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      last[i] = static_cast<std::uint32_t>(rows[i].tokens.size()) - 1;
      slices[i] = Slice(rows[i].sequence, rows[i].tokens, &last[i]);
    }
    std::vector<StepResult> results;
    const Status status = engine_->Step(slices, &results);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<Logits> logits;
    for (const StepResult& result : results) {
      EXPECT_TRUE(result.status.ok()) << result.status.message();
      EXPECT_EQ(result.logits.size(), engine_->facts().contract.vocab_size());
      logits.emplace_back(result.logits.begin(), result.logits.end());
    }
    return logits;
  }

  StepSlice Slice(SequenceId sequence, const Tokens& tokens, const std::uint32_t* wanted = nullptr) const {
    StepSlice slice;
    slice.sequence = sequence;
    slice.position = engine_->Length(sequence);
    slice.rows = static_cast<std::uint32_t>(tokens.size());
    slice.token_ids = tokens;
    if (wanted != nullptr) slice.logits_rows = {wanted, 1};
    return slice;
  }

  Code RunOne(const StepSlice& slice) {
    std::vector<StepResult> results;
    const Status status = engine_->Step({&slice, 1}, &results);
    return status.ok() ? results.at(0).status.code() : status.code();
  }

  // The logits after the prompt and after each of `steps` greedy tokens.
  std::vector<Logits> Generate(SequenceId sequence, const Tokens& prompt, int steps) {
    EXPECT_TRUE(engine_->Open(sequence).ok());
    std::vector<Logits> all = Step({{sequence, prompt}});
    for (int i = 0; i < steps; ++i) all.push_back(Step({{sequence, {ArgMax(all.back())}}})[0]);
    return all;
  }

  std::unique_ptr<ShardEngine> engine_;
};

TEST_P(ShardEngineContract, FactsAgreeWithEachOther) {
  const ShardFacts& facts = engine_->facts();
  EXPECT_TRUE(facts.is_head());
  EXPECT_TRUE(facts.is_tail());
  EXPECT_EQ(facts.contract.layers().layer_begin(), 0u);
  EXPECT_EQ(facts.contract.layers().layer_end(), facts.contract.n_layers());
  EXPECT_EQ(facts.contract.context_length(), 256u);
  EXPECT_EQ(facts.contract.contract_digest().size(), 32u);
  EXPECT_TRUE(facts.contract.needs_token_ids());
  EXPECT_FALSE(facts.contract.architecture().empty());
  EXPECT_FALSE(facts.contract.recipe().empty());
  EXPECT_EQ(facts.max_sequences, 4u);
  EXPECT_EQ(facts.kv_cells, 4u * 256u);
  EXPECT_GE(facts.max_step_rows, facts.max_sequences);
  EXPECT_LE(facts.batch_rows, facts.max_step_rows);
}

TEST_P(ShardEngineContract, TheDigestDependsOnArtifactAndContextOnly) {
  const auto digest = [](LoadPlan plan) {
    return GetParam().load(plan, GoOn).value()->facts().contract.contract_digest();
  };
  const std::string own = engine_->facts().contract.contract_digest();
  LoadPlan plan = GetParam().plan;
  plan.max_sessions = 2;
  plan.threads = 2;
  EXPECT_EQ(digest(plan), own);
  plan.context_length = 512;
  EXPECT_NE(digest(plan), own);
  plan = GetParam().plan;
  plan.artifact_digest = std::string(32, 'b');
  EXPECT_NE(digest(plan), own);
}

TEST_P(ShardEngineContract, BatchesOfManySessionsEqualEachAlone) {
  constexpr int kSteps = 8;
  std::vector<std::vector<Logits>> alone;
  for (const Tokens& prompt : kPrompts) {
    alone.push_back(Generate(0, prompt, kSteps));
    engine_->Close(0);
  }
  std::vector<Rows> rows;
  for (SequenceId sequence = 0; sequence < 3; ++sequence) {
    ASSERT_TRUE(engine_->Open(sequence).ok());
    EXPECT_EQ(Step({{sequence, kPrompts[sequence]}})[0], alone[static_cast<std::size_t>(sequence)][0]);
    rows.push_back({sequence, {ArgMax(alone[static_cast<std::size_t>(sequence)][0])}});
  }
  int compared = 0;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    const std::vector<Logits> together = Step(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(together[i], alone[i][step]) << "session " << i << ", step " << step;
      rows[i].tokens = {ArgMax(together[i])};
      ++compared;
    }
  }
  EXPECT_EQ(compared, 3 * kSteps);
  EXPECT_NE(alone[0][0], alone[1][0]);  // control: different sessions do differ
}

TEST_P(ShardEngineContract, SessionsThatEndBetweenOthersLeaveTheseAsTheyWere) {
  constexpr std::size_t kSteps = 12;
  std::vector<std::vector<Logits>> alone;
  for (const Tokens& prompt : kPrompts) {
    alone.push_back(Generate(0, prompt, kSteps));
    engine_->Close(0);
  }
  struct Live {
    SequenceId sequence;
    std::size_t prompt;
    std::size_t step;  // of `alone`, that comes next
  };
  std::vector<Live> live;
  int compared = 0;
  const auto open = [&](SequenceId sequence, std::size_t prompt) {
    ASSERT_TRUE(engine_->Open(sequence).ok());
    EXPECT_EQ(Step({{sequence, kPrompts[prompt]}})[0], alone[prompt][0]);
    live.push_back({sequence, prompt, 1});
  };
  const auto close = [&](SequenceId sequence) {
    engine_->Close(sequence);
    std::erase_if(live, [sequence](const Live& one) { return one.sequence == sequence; });
  };
  const auto step = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      std::vector<Rows> rows;
      for (const Live& one : live) rows.push_back({one.sequence, {ArgMax(alone[one.prompt][one.step - 1])}});
      const std::vector<Logits> got = Step(rows);
      for (std::size_t j = 0; j < live.size(); ++j, ++compared) {
        EXPECT_EQ(got[j], alone[live[j].prompt][live[j].step++]) << "sequence " << live[j].sequence;
      }
    }
  };
  for (const SequenceId sequence : {0, 1, 2, 3}) open(sequence, static_cast<std::size_t>(sequence) % 3);
  step(2);
  close(1);
  step(3);
  close(0);
  step(2);
  open(1, 1);
  step(2);
  close(2);
  open(0, 2);
  open(2, 0);
  step(2);
  EXPECT_EQ(compared, 4 * 2 + 3 * 3 + 2 * 2 + 3 * 2 + 4 * 2);
  EXPECT_TRUE(engine_->Rewind(3, kPrompts[0].size()).ok());
  EXPECT_EQ(Step({{3, {ArgMax(alone[0][0])}}})[0], alone[0][1]);
}

TEST_P(ShardEngineContract, RewindGivesTheSameAgain) {
  const std::vector<Logits> first = Generate(0, kPrompts[0], 6);
  ASSERT_TRUE(engine_->Rewind(0, kPrompts[0].size()).ok());
  EXPECT_EQ(engine_->Length(0), kPrompts[0].size());
  Logits last = first[0];
  for (std::size_t i = 1; i < first.size(); ++i) {
    last = Step({{0, {ArgMax(last)}}})[0];
    EXPECT_EQ(last, first[i]);
  }
  EXPECT_EQ(engine_->Rewind(0, 1000).code(), Code::kWrongPosition);
  EXPECT_EQ(engine_->Rewind(1, 0).code(), Code::kUnknownSession);
  EXPECT_TRUE(engine_->Rewind(0, 0).ok());
  EXPECT_EQ(Step({{0, kPrompts[0]}})[0], first[0]);
}

TEST_P(ShardEngineContract, ASavedStateGoesOnInAnotherSequenceAndInAnotherEngine) {
  ASSERT_TRUE(engine_->Open(0).ok());
  const Logits first = Step({{0, kPrompts[0]}})[0];
  Result<SequenceState> state = engine_->Save(0, StateScope::kWhole);
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_EQ(state.value().length, kPrompts[0].size());
  const auto go_on = [&](SequenceId sequence) {
    std::vector<Logits> all = {first};
    for (int i = 0; i < 4; ++i) all.push_back(Step({{sequence, {ArgMax(all.back())}}})[0]);
    return all;
  };
  const std::vector<Logits> expected = go_on(0);
  ASSERT_TRUE(engine_->Open(1).ok());
  Step({{1, kPrompts[1]}});
  ASSERT_TRUE(engine_->Restore(1, state.value()).ok());
  EXPECT_EQ(engine_->Length(1), kPrompts[0].size());
  EXPECT_EQ(go_on(1), expected);
  engine_ = std::move(GetParam().load(GetParam().plan, GoOn).value());
  ASSERT_TRUE(engine_->Open(2).ok());
  ASSERT_TRUE(engine_->Restore(2, state.value()).ok());
  EXPECT_EQ(go_on(2), expected);

  EXPECT_EQ(engine_->Save(3, StateScope::kWhole).status().code(), Code::kUnknownSession);
  EXPECT_EQ(engine_->Restore(3, state.value()).code(), Code::kUnknownSession);
  state.value().bytes.resize(state.value().bytes.size() / 2);
  EXPECT_EQ(engine_->Restore(2, state.value()).code(), Code::kEngineFailed);
  state.value().length = 1000;
  EXPECT_EQ(engine_->Restore(2, state.value()).code(), Code::kContextFull);
  engine_->Close(2);
  EXPECT_EQ(Generate(2, kPrompts[0], 4), expected);
}

TEST_P(ShardEngineContract, WhatCanBeCutOffNeedsNoState) {
  const std::vector<Logits> first = Generate(0, kPrompts[0], 0);
  const Result<SequenceState> state = engine_->Save(0, StateScope::kNotTruncated);
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE(engine_->facts().truncates);
  EXPECT_TRUE(state.value().bytes.empty());
  const Logits next = Step({{0, {7}}})[0];
  ASSERT_TRUE(engine_->Restore(0, state.value()).ok());
  EXPECT_EQ(engine_->Length(0), kPrompts[0].size());
  EXPECT_EQ(Step({{0, {7}}})[0], next);
  ASSERT_TRUE(engine_->Rewind(0, 1).ok());
  EXPECT_EQ(engine_->Restore(0, state.value()).code(), Code::kWrongPosition);
}

TEST_P(ShardEngineContract, CloseFreesTheSequenceForAnother) {
  const std::vector<Logits> fresh = Generate(0, kPrompts[1], 2);
  engine_->Close(0);
  engine_->Close(0);
  EXPECT_EQ(engine_->Length(0), 0u);
  EXPECT_TRUE(engine_->IsUsable(0));
  (void)Generate(0, kPrompts[2], 5);
  engine_->Close(0);
  EXPECT_EQ(Generate(0, kPrompts[1], 2), fresh);
}

TEST_P(ShardEngineContract, SequencesAreNamedAndCounted) {
  for (SequenceId sequence = 0; sequence < 4; ++sequence) EXPECT_TRUE(engine_->Open(sequence).ok());
  EXPECT_EQ(engine_->Open(0).code(), Code::kSessionExists);
  EXPECT_EQ(engine_->Open(4).code(), Code::kTooManySessions);
  EXPECT_EQ(engine_->Open(-1).code(), Code::kTooManySessions);
  engine_->Close(2);
  EXPECT_EQ(RunOne(Slice(2, {1})), Code::kUnknownSession);
  EXPECT_EQ(RunOne(Slice(99, {1})), Code::kUnknownSession);
  EXPECT_EQ(RunOne(Slice(-7, {1})), Code::kUnknownSession);
}

TEST_P(ShardEngineContract, BadRowsAreRefusedWithTheirCode) {
  ASSERT_TRUE(engine_->Open(0).ok());
  const Tokens tokens = {1, 2, 3};
  const Tokens foreign = {1, engine_->facts().contract.vocab_size(), 3};
  const Tokens huge = {1, 0xffffffffu, 3};
  const std::vector<float> hidden(16, 0.0f);
  const std::uint32_t beyond = 3;
  const std::uint32_t descending[] = {2, 1};
  const auto changed = [&](auto change) {
    StepSlice slice = Slice(0, tokens);
    change(slice);
    return RunOne(slice);
  };
  EXPECT_EQ(changed([](StepSlice& slice) { slice.rows = 0; }), Code::kWrongShape);
  EXPECT_EQ(changed([](StepSlice& slice) { slice.rows = 2; }), Code::kWrongSize);
  EXPECT_EQ(changed([](StepSlice& slice) { slice.token_ids = {}; }), Code::kMissingTokenIds);
  EXPECT_EQ(changed([&](StepSlice& slice) { slice.token_ids = foreign; }), Code::kBadTokenId);
  EXPECT_EQ(changed([&](StepSlice& slice) { slice.token_ids = huge; }), Code::kBadTokenId);
  EXPECT_EQ(changed([&](StepSlice& slice) { slice.hidden = hidden; }), Code::kWrongSize);
  EXPECT_EQ(changed([&](StepSlice& slice) { slice.logits_rows = {&beyond, 1}; }), Code::kWrongShape);
  EXPECT_EQ(changed([&](StepSlice& slice) { slice.logits_rows = descending; }), Code::kWrongShape);
  EXPECT_EQ(changed([](StepSlice& slice) { slice.position = 1; }), Code::kWrongPosition);
  EXPECT_EQ(changed([](StepSlice& slice) { slice.position = std::numeric_limits<std::uint64_t>::max(); }),
            Code::kWrongPosition);
  EXPECT_EQ(engine_->Length(0), 0u);
  EXPECT_EQ(RunOne(Slice(0, tokens)), Code::kOk);
}

TEST_P(ShardEngineContract, ABadSliceLeavesTheOthersAlone) {
  const std::vector<Logits> alone = Generate(0, kPrompts[0], 1);
  engine_->Close(0);
  ASSERT_TRUE(engine_->Open(0).ok());
  ASSERT_TRUE(engine_->Open(1).ok());
  const std::uint32_t last = static_cast<std::uint32_t>(kPrompts[0].size()) - 1;
  const Tokens bad_ids = {0xffffffffu};
  const StepSlice slices[] = {Slice(1, bad_ids), Slice(0, kPrompts[0], &last), Slice(3, kPrompts[1])};
  std::vector<StepResult> results;
  ASSERT_TRUE(engine_->Step(slices, &results).ok());
  EXPECT_EQ(results[0].status.code(), Code::kBadTokenId);
  EXPECT_EQ(results[2].status.code(), Code::kUnknownSession);
  ASSERT_TRUE(results[1].status.ok());
  EXPECT_EQ(Logits(results[1].logits.begin(), results[1].logits.end()), alone[0]);
}

TEST_P(ShardEngineContract, LimitsHold) {
  ASSERT_TRUE(engine_->Open(0).ok());
  const Tokens chunk(128, 1);
  EXPECT_EQ(RunOne(Slice(0, chunk)), Code::kOk);
  EXPECT_EQ(RunOne(Slice(0, chunk)), Code::kOk);
  EXPECT_EQ(engine_->Length(0), 256u);
  EXPECT_EQ(RunOne(Slice(0, {1})), Code::kContextFull);
  ASSERT_TRUE(engine_->Open(1).ok());
  const Tokens too_many(engine_->facts().max_step_rows + 1, 1);
  const Code code = RunOne(Slice(1, too_many));
  EXPECT_TRUE(code == Code::kMessageTooLarge || code == Code::kWrongShape);
  EXPECT_EQ(RunOne(Slice(1, chunk)), Code::kOk);
}

TEST_P(ShardEngineContract, LayersOutsideTheModelAreRefused) {
  LoadPlan plan = GetParam().plan;
  const std::uint32_t n_layers = engine_->facts().contract.n_layers();
  for (const LayerSpan layers : {LayerSpan{0, n_layers + 1}, LayerSpan{n_layers, n_layers}, LayerSpan{3, 2}}) {
    plan.layers = layers;
    EXPECT_EQ(GetParam().load(plan, GoOn).status().code(), Code::kLayersOutOfRange);
  }
}

TEST_P(ShardEngineContract, LoadingReportsAndCanBeGivenUp) {
  float last = -1.0f;
  const auto observer = [&last](float fraction) {
    EXPECT_GE(fraction, last);
    last = fraction;
    return true;
  };
  EXPECT_TRUE(GetParam().load(GetParam().plan, observer).ok());
  EXPECT_EQ(last, 1.0f);
  EXPECT_EQ(GetParam().load(GetParam().plan, [](float) { return false; }).status().code(), Code::kCancelled);
}

INSTANTIATE_TEST_SUITE_P(Engines, ShardEngineContract, testing::ValuesIn(EnginesUnderTest()),
                         [](const testing::TestParamInfo<EngineUnderTest>& tested) { return tested.param.name; });

}  // namespace
}  // namespace meshnet
