// Going back where a memory cannot be cut off: states and rows that are computed again.
#include "engine/rewinding_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "session/forwarding_engine.h"
#include "session/machine_fixture.h"

namespace meshnet {
namespace {

using Rows = std::vector<float>;

constexpr LayerSpan kLayers = {2, 5};
constexpr std::uint32_t kPromptRows = 50;
constexpr std::uint32_t kSingleRows = 70;

// FakeEngine with a memory that only a saved state brings back.
class StatefulEngine : public ForwardingEngine {
 public:
  explicit StatefulEngine(LayerSpan layers, bool damages_states = false)
      : ForwardingEngine(layers), damages_states_(damages_states) {
    facts_.truncates = false;
  }

  Status Rewind(SequenceId sequence, std::uint64_t length) override {
    const bool is_possible = length == 0 || length >= engine_->Length(sequence);
    return is_possible ? engine_->Rewind(sequence, length) : Status(Code::kRewindRefused, "a state");
  }
  Result<SequenceState> Save(SequenceId sequence, StateScope /*scope*/) override {
    Result<SequenceState> state = engine_->Save(sequence, StateScope::kWhole);
    if (state.ok() && damages_states_) ++state.value().bytes.back();
    return state;
  }

 private:
  const bool damages_states_;
};

// [rows, kTestWidth] of integers that a layer of FakeEngine may give.
Rows Hidden(std::uint64_t position, std::uint32_t rows) {
  Rows hidden(std::size_t{rows} * kTestWidth);
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    hidden[i] = static_cast<float>((position * kTestWidth + i) * 7919 % 60000);
  }
  return hidden;
}

// Takes the rows from the sequence's length on and gives theirs.
Rows RunRows(ShardEngine* engine, std::uint32_t rows, SequenceId sequence = 0) {
  StepSlice slice;
  slice.sequence = sequence;
  slice.position = engine->Length(sequence);
  slice.rows = rows;
  const Rows hidden = Hidden(slice.position, rows);
  slice.hidden = hidden;
  std::vector<StepResult> results;
  EXPECT_TRUE(engine->Step({&slice, 1}, &results).ok());
  EXPECT_TRUE(results.at(0).status.ok()) << results[0].status.message();
  return {results[0].hidden.begin(), results[0].hidden.end()};
}

// Of a sequence that never went back: what each row after the prompt gives.
std::vector<Rows> NeverRewound() {
  StatefulEngine engine(kLayers);
  EXPECT_TRUE(engine.Open(0).ok());
  RunRows(&engine, kPromptRows);
  std::vector<Rows> rows;
  for (std::uint32_t i = 0; i < kSingleRows; ++i) rows.push_back(RunRows(&engine, 1));
  return rows;
}

void Fill(ShardEngine* engine, SequenceId sequence = 0) {
  ASSERT_TRUE(engine->Open(sequence).ok());
  RunRows(engine, kPromptRows, sequence);
  for (std::uint32_t i = 0; i < kSingleRows; ++i) RunRows(engine, 1, sequence);
}

TEST(RewindingEngineTest, AllOfTheNewestRowsCanBeTakenBackAndGiveTheSameAgain) {
  const std::vector<Rows> never = NeverRewound();
  std::size_t compared = 0;
  std::uint32_t reached = 0;
  for (std::uint32_t back = 1; back <= kSingleRows; ++back) {
    RewindingEngine engine(std::make_unique<StatefulEngine>(kLayers));
    Fill(&engine);
    const std::uint64_t length = engine.Length(0) - back;
    const Status status = engine.Rewind(0, length);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kRewindRefused);
      EXPECT_EQ(engine.Length(0), length + back);
      continue;
    }
    ++reached;
    EXPECT_EQ(engine.Length(0), length);
    for (std::uint64_t at = length - kPromptRows; at < kSingleRows; ++at, ++compared) {
      EXPECT_EQ(RunRows(&engine, 1), never[at]) << back << " rows back, row " << at;
    }
  }
  std::cout << "[ rewound  ] positions=" << reached << " rows=" << compared << std::endl;
  EXPECT_GE(reached, SequenceHistory::kRowsApart);
  EXPECT_LT(reached, kSingleRows);  // further back is refused
  EXPECT_GT(compared, 500u);
}

TEST(RewindingEngineTest, ItGoesBackAgainAndAgain) {
  const std::vector<Rows> never = NeverRewound();
  RewindingEngine engine(std::make_unique<StatefulEngine>(kLayers));
  Fill(&engine);
  for (const std::uint32_t back : {20u, 3u, 1u, 17u, 8u}) {
    ASSERT_TRUE(engine.Rewind(0, kPromptRows + kSingleRows - back).ok()) << back;
    for (std::uint64_t at = kSingleRows - back; at < kSingleRows; ++at) EXPECT_EQ(RunRows(&engine, 1), never[at]);
  }
  ASSERT_TRUE(engine.Rewind(0, 0).ok());
  EXPECT_EQ(engine.state_bytes(), 0u);
  RunRows(&engine, kPromptRows);
  EXPECT_EQ(RunRows(&engine, 1), never[0]);
}

TEST(RewindingEngineTest, ADamagedStateIsSeen) {
  const std::vector<Rows> never = NeverRewound();
  RewindingEngine engine(std::make_unique<StatefulEngine>(kLayers, true));
  Fill(&engine);
  ASSERT_TRUE(engine.Rewind(0, kPromptRows + kSingleRows - 5).ok());
  EXPECT_NE(RunRows(&engine, 1), never[kSingleRows - 5]);
}

TEST(RewindingEngineTest, ARefusalNamesTheNearestPositionAndChangesNothing) {
  RewindingEngine engine(std::make_unique<StatefulEngine>(kLayers));
  ASSERT_TRUE(engine.Open(0).ok());
  for (int chunk = 0; chunk < 4; ++chunk) RunRows(&engine, kPromptRows);
  const std::uint64_t bytes = engine.state_bytes();
  const Status status = engine.Rewind(0, 120);
  EXPECT_EQ(status.code(), Code::kRewindRefused);
  EXPECT_NE(status.message().find("to 100"), std::string::npos) << status.message();
  EXPECT_EQ(engine.Length(0), 200u);
  EXPECT_EQ(engine.state_bytes(), bytes);
  EXPECT_TRUE(engine.Rewind(0, 100).ok());
  EXPECT_EQ(engine.Rewind(0, 200).code(), Code::kWrongPosition);
  EXPECT_EQ(engine.Rewind(1, 0).code(), Code::kUnknownSession);
  EXPECT_EQ(engine.Rewind(-1, 0).code(), Code::kUnknownSession);
}

TEST(RewindingEngineTest, StatesAreBoundedAndEndWithTheirSequence) {
  const std::size_t row_bytes = std::size_t{kLayers.layer_end - kLayers.layer_begin} * kTestWidth * 4;
  RewindingEngine engine(std::make_unique<StatefulEngine>(kLayers));
  for (SequenceId sequence = 0; sequence < 4; ++sequence) Fill(&engine, sequence);
  EXPECT_GT(engine.state_bytes(), 4 * 100 * row_bytes);
  EXPECT_LE(engine.state_bytes(), 4 * SequenceHistory::kStates * 120 * row_bytes);
  for (SequenceId sequence = 0; sequence < 4; ++sequence) {
    engine.Close(sequence);
    engine.Close(sequence);
  }
  EXPECT_EQ(engine.state_bytes(), 0u);

  // Two states of the first sequence fit, and nobody else's.
  const std::uint64_t room = 2 * 120 * row_bytes;
  RewindingEngine narrow(std::make_unique<StatefulEngine>(kLayers), room);
  Fill(&narrow, 0);
  Fill(&narrow, 1);
  EXPECT_LE(narrow.state_bytes(), room);
  EXPECT_TRUE(narrow.Rewind(0, kPromptRows + kSingleRows - 9).ok());
  EXPECT_EQ(narrow.Rewind(1, kPromptRows + kSingleRows - 60).code(), Code::kRewindRefused);
}

TEST(RewindingEngineTest, AWholeStateThatIsRestoredIsAllThatIsKnownOfTheSequence) {
  const std::vector<Rows> never = NeverRewound();
  RewindingEngine engine(std::make_unique<StatefulEngine>(kLayers));
  Fill(&engine);
  const Result<SequenceState> state = engine.Save(0, StateScope::kWhole);
  ASSERT_TRUE(state.ok());
  ASSERT_TRUE(engine.Open(1).ok());
  ASSERT_TRUE(engine.Restore(1, state.value()).ok());
  EXPECT_EQ(engine.Rewind(1, 100).code(), Code::kRewindRefused);
  const Rows next = RunRows(&engine, 1, 1);
  EXPECT_EQ(RunRows(&engine, 1, 0), next);
  ASSERT_TRUE(engine.Rewind(1, engine.Length(1) - 1).ok());
  EXPECT_EQ(RunRows(&engine, 1, 1), next);
}

TEST(RewindingEngineTest, OneThatCutsItsMemoryOffIsLeftAlone) {
  std::unique_ptr<ShardEngine> fake = LoadFake(kLayers);
  const ShardEngine* const given = fake.get();
  EXPECT_EQ(KeepStates(std::move(fake)).get(), given);
  EXPECT_NE(dynamic_cast<RewindingEngine*>(KeepStates(std::make_unique<StatefulEngine>(kLayers)).get()), nullptr);
}

// What a stage in the middle of a route gets, with the ack that lets it send the next.
class MiddleStage {
 public:
  explicit MiddleStage(std::unique_ptr<ShardEngine> engine) : stage_(std::move(engine)) {
    v1::SessionSpec spec = SpecFor(stage_.engine->facts(), 1, 3);
    spec.set_prompt_tokens(kPromptRows);
    spec.set_max_tokens(100);
    EXPECT_TRUE(stage_.machine.Open(spec, At(0)).ok());
  }

  // The rows that it hands on; none where it failed.
  std::string Give(std::uint64_t position, std::uint32_t rows, bool rewind = false) {
    v1::Frame frame;
    frame.set_session(SessionBytes('s'));
    frame.set_epoch(1);
    frame.set_from_stage(0);
    frame.set_to_stage(1);
    frame.set_seq(seq_);
    frame.set_phase(rows > 1 ? v1::PHASE_PREFILL : v1::PHASE_DECODE);
    frame.set_prompt_end(rows > 1);
    frame.set_position(position);
    frame.set_rows(rows);
    frame.set_rewind(rewind);
    v1::Tensor* tensor = frame.add_tensors();
    tensor->set_name(std::string(kHiddenTensor));
    tensor->set_dtype(v1::DTYPE_F32);
    tensor->add_shape(rows);
    tensor->add_shape(kTestWidth);
    tensor->set_codec(v1::CODEC_RAW);
    const Rows hidden = Hidden(position, rows);
    tensor->set_data(hidden.data(), hidden.size() * sizeof(float));
    EXPECT_TRUE(stage_.machine.Receive({}, std::move(frame), At(1)).ok());
    stage_.Run(At(1));
    const std::vector<v1::Frame> sent = stage_.TakeFrames();
    if (sent.size() != 1) return {};
    EXPECT_EQ(sent[0].rewind(), rewind);
    EXPECT_TRUE(stage_.machine.Receive({}, AckOn({1, 2}, seq_++), At(1)).ok());
    return sent[0].tensors(0).data();
  }

  std::string Failure() { return stage_.TakeFailure(); }

 private:
  TestStage stage_;
  std::uint64_t seq_ = 0;
};

TEST(RewindingEngineTest, AFrameThatRewindsIsComputedAsIfNothingHadBeenBehindIt) {
  const auto filled = [](std::unique_ptr<ShardEngine> engine, std::vector<std::string>* rows) {
    auto stage = std::make_unique<MiddleStage>(std::move(engine));
    EXPECT_FALSE(stage->Give(0, kPromptRows).empty());
    for (std::uint32_t i = 0; i < 12; ++i) rows->push_back(stage->Give(kPromptRows + i, 1));
    return stage;
  };
  std::vector<std::string> rows;
  const auto stage = filled(KeepStates(std::make_unique<StatefulEngine>(kLayers)), &rows);
  EXPECT_EQ(stage->Give(kPromptRows + 7, 1, true), rows[7]);
  EXPECT_EQ(stage->Give(kPromptRows + 8, 1), rows[8]);
  EXPECT_EQ(stage->Give(kPromptRows, 1, true), rows[0]);
  EXPECT_TRUE(stage->Give(3, 1, true).empty());
  EXPECT_EQ(stage->Failure(), "rewind_refused");

  // Control: without kept states nothing goes back.
  std::vector<std::string> others;
  const auto plain = filled(std::make_unique<StatefulEngine>(kLayers), &others);
  EXPECT_EQ(others, rows);
  EXPECT_TRUE(plain->Give(kPromptRows + 7, 1, true).empty());
  EXPECT_EQ(plain->Failure(), "rewind_refused");
}

}  // namespace
}  // namespace meshnet
