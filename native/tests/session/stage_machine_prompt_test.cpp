// Prompts on a stage that serves others too: cut into pieces while somebody decodes, and together in one step.
#include <gtest/gtest.h>

#include "session/forwarding_engine.h"
#include "session/machine_fixture.h"
#include "session/prompt_budget.h"
#include "session/stage_machine.h"

namespace meshnet {
namespace {

const Origin kBridge{};

constexpr std::uint32_t kPiece = PromptBudget::kRowsUnmeasured;  // before anything was measured
constexpr std::uint32_t kPieces = 128 / kPiece;

// The terms of a longer prompt.
v1::SessionSpec LongSpec(const ShardFacts& facts, std::uint32_t stage, std::uint32_t n_stages, char name) {
  v1::SessionSpec spec = SpecFor(facts, stage, n_stages, name);
  spec.set_prompt_tokens(128);
  return spec;
}

// Rows of the steps that are there to run, one after the other.
std::vector<std::uint32_t> StepRows(TestStage* stage, TimePoint now, char name) {
  std::vector<std::uint32_t> rows;
  while (stage->machine.HasReady()) {
    std::vector<StepItem> items = stage->machine.TakeStep(now);
    for (StepItem& item : items) {
      if (item.rows.frame.session() == SessionBytes(name)) rows.push_back(item.rows.frame.rows());
    }
    stage->Compute(&items);
    stage->machine.CommitStep(std::move(items), now);
  }
  return rows;
}

TEST(StageMachinePromptTest, APromptIsComputedInPiecesWhileSomebodyDecodesAndAcknowledgedWhole) {
  TestStage head({0, 4});
  ASSERT_TRUE(head.machine.Open(SpecFor(head.engine->facts(), 0, 2, 'a'), At(0)).ok());
  ASSERT_TRUE(head.machine.Open(LongSpec(head.engine->facts(), 0, 2, 'b'), At(0)).ok());
  ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'a'), At(1)).ok());
  head.Run(At(1));
  (void)head.TakeFrames();
  (void)head.TakeEdgeMessages(v1::EdgeMessage::kAck);
  ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(0, 0, 128, true, 'b'), At(2)).ok());
  // The seam's window holds two frames.
  EXPECT_EQ(StepRows(&head, At(2), 'b'), (std::vector<std::uint32_t>(2, kPiece)));
  EXPECT_TRUE(head.TakeEdgeMessages(v1::EdgeMessage::kAck).empty());
  std::vector<v1::Frame> frames = head.TakeFrames();
  for (std::uint64_t seq = 0; seq + 2 < kPieces; ++seq) {
    ASSERT_TRUE(head.machine.Receive(kBridge, AckOn({0, 1}, seq, 'b'), At(3)).ok());
    EXPECT_EQ(StepRows(&head, At(3), 'b'), (std::vector<std::uint32_t>(1, kPiece)));
  }
  for (v1::Frame& frame : head.TakeFrames()) frames.push_back(std::move(frame));
  ASSERT_EQ(frames.size(), kPieces);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].seq(), i);
    EXPECT_EQ(frames[i].position(), kPiece * i);
    EXPECT_EQ(frames[i].prompt_end(), i + 1 == kPieces);
    EXPECT_EQ(frames[i].logits_rows_size(), i + 1 == kPieces ? 1 : 0);
  }
  EXPECT_EQ(head.TakeEdgeMessages(v1::EdgeMessage::kAck).size(), 1u);
  EXPECT_EQ(head.TakeFailure(), "");
}

TEST(StageMachinePromptTest, PiecesGiveTheSameTokensAsTheWholeChunk) {
  std::vector<std::vector<std::uint32_t>> tokens;
  for (const bool in_company : {false, true}) {
    TestStage stage({0, 8});
    ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1, 'a'), At(0)).ok());
    ASSERT_TRUE(stage.machine.Open(LongSpec(stage.engine->facts(), 0, 1, 'b'), At(0)).ok());
    if (in_company) {
      ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'a'), At(1)).ok());
    }
    stage.Run(At(1));
    (void)stage.TakeEdgeMessages(v1::EdgeMessage::kToken);
    (void)stage.TakeEdgeMessages(v1::EdgeMessage::kPrefill);
    ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 128, true, 'b'), At(2)).ok());
    stage.Run(At(2));
    tokens.emplace_back();
    for (const v1::EdgeMessage& message : stage.TakeEdgeMessages(v1::EdgeMessage::kToken)) {
      tokens.back().push_back(message.token().token_id());
    }
    const std::size_t steps = stage.TakeEdgeMessages(v1::EdgeMessage::kPrefill).size();
    EXPECT_EQ(steps > 1, in_company) << steps;
  }
  ASSERT_EQ(tokens[0].size(), 4u);
  EXPECT_EQ(tokens[0], tokens[1]);
}

TEST(StageMachinePromptTest, APromptIsNotCutForOneWhoIsDoneOrSilentNorOnceItIsLate) {
  TestStage stage({0, 8});
  v1::SessionSpec brief = SpecFor(stage.engine->facts(), 0, 1, 'a');
  brief.set_max_tokens(1);
  ASSERT_TRUE(stage.machine.Open(brief, At(0)).ok());
  ASSERT_TRUE(stage.machine.Open(LongSpec(stage.engine->facts(), 0, 1, 'b'), At(0)).ok());
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'a'), At(1)).ok());
  stage.Run(At(1));
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 64, false, 'b'), At(2)).ok());
  EXPECT_EQ(StepRows(&stage, At(2), 'b'), (std::vector<std::uint32_t>{64}));

  ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1, 'c'), At(3)).ok());
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'c'), At(3)).ok());
  stage.Run(At(3));
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(1, 64, 32, false, 'b'), At(4)).ok());
  // Half of its step's second has passed.
  EXPECT_EQ(StepRows(&stage, At(505), 'b'), (std::vector<std::uint32_t>{32}));
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(2, 96, 32, true, 'b'), At(6000)).ok());
  EXPECT_EQ(StepRows(&stage, At(6000), 'b').front(), 32u);
}

TEST(StageMachinePromptTest, APromptIsCutWhileAnotherWorkerOfTheMachineDecodes) {
  for (const bool others_decode : {false, true}) {
    TestStage stage({0, 8});
    ASSERT_TRUE(stage.machine.Open(LongSpec(stage.engine->facts(), 0, 1, 'b'), At(0)).ok());
    ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 128, true, 'b'), At(1)).ok());
    stage.RunOrders();
    std::vector<StepItem> items = stage.machine.TakeStep(At(1), others_decode);
    ASSERT_EQ(items.size(), 1u);
    EXPECT_EQ(items.front().rows.frame.rows(), others_decode ? PromptBudget::kRowsUnmeasured : 128u);
  }
}

// Computes prompts and decode rows in steps of their own, as llama.cpp does.
class ApartEngine : public ForwardingEngine {
 public:
  ApartEngine() : ForwardingEngine({0, 8}) { facts_.mixes_phases = false; }
};

// The rows of each session's part in the next step, in order.
std::vector<std::pair<char, std::uint32_t>> NextStep(TestStage* stage, TimePoint now) {
  std::vector<std::pair<char, std::uint32_t>> parts;
  std::vector<StepItem> items = stage->machine.TakeStep(now);
  for (const StepItem& item : items) parts.emplace_back(item.rows.frame.session()[0], item.rows.frame.rows());
  stage->Compute(&items);
  stage->machine.CommitStep(std::move(items), now);
  return parts;
}

TEST(StageMachinePromptTest, NewcomersShareAPromptStepAndThoseOnExactRoutesHaveOneAlone) {
  using Parts = std::vector<std::pair<char, std::uint32_t>>;
  for (const bool is_exact : {false, true}) {
    TestStage stage(std::make_unique<ApartEngine>());
    for (const char name : {'a', 'b', 'c', 'd'}) {
      v1::SessionSpec spec = SpecFor(stage.engine->facts(), 0, 1, name);
      spec.set_exact(is_exact && name != 'a');
      spec.set_prompt_tokens(name == 'a' ? 8 : 1);
      ASSERT_TRUE(stage.machine.Open(spec, At(0)).ok());
    }
    ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'a'), At(1)).ok());
    stage.RunOrders();
    EXPECT_EQ(NextStep(&stage, At(1)), (Parts{{'a', 8}}));
    for (const char name : {'b', 'c', 'd'}) {
      ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 1, true, name), At(2)).ok());
    }
    EXPECT_EQ(NextStep(&stage, At(2)), (Parts{{'a', 1}}));
    // Steps were measured: kRowsMin in all, or more.
    const Parts shared = NextStep(&stage, At(2));
    EXPECT_EQ(shared.front(), (std::pair<char, std::uint32_t>('b', 1)));
    EXPECT_EQ(shared.size() > 1, !is_exact) << shared.size();
    EXPECT_EQ(NextStep(&stage, At(2)).front(), (std::pair<char, std::uint32_t>('a', 1)));
    stage.Run(At(3));
    EXPECT_EQ(stage.TakeEdgeMessages(v1::EdgeMessage::kPrefill).size(), 4u);
  }
}

TEST(StageMachinePromptTest, ShortPromptsShareAStepWhereNobodyDecodesAndLongOnesDoNot) {
  using Parts = std::vector<std::pair<char, std::uint32_t>>;
  struct Case {
    std::uint32_t rows;
    bool is_exact;
    Parts first;
  };
  const std::vector<Case> cases = {{16, false, {{'b', 16}, {'c', 16}, {'d', 16}}},
                                   {16, true, {{'b', 16}}},
                                   {32, false, {{'b', 32}, {'c', 32}}},
                                   {128, false, {{'b', 128}}}};
  for (const Case& one : cases) {
    TestStage stage(std::make_unique<ApartEngine>());
    for (const char name : {'b', 'c', 'd'}) {
      v1::SessionSpec spec = LongSpec(stage.engine->facts(), 0, 1, name);
      spec.set_exact(one.is_exact);
      ASSERT_TRUE(stage.machine.Open(spec, At(0)).ok());
      ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, one.rows, one.rows == 128, name), At(1)).ok());
    }
    stage.RunOrders();
    EXPECT_EQ(NextStep(&stage, At(1)), one.first) << one.rows;
  }
}

TEST(StageMachinePromptTest, OneWhoseRowHasWaitedForLongStillDecodes) {
  TestStage head({0, 4});
  ASSERT_TRUE(head.machine.Open(SpecFor(head.engine->facts(), 0, 2, 'a'), At(0)).ok());
  ASSERT_TRUE(head.machine.Open(LongSpec(head.engine->facts(), 0, 2, 'b'), At(0)).ok());
  ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'a'), At(1)).ok());
  head.Run(At(1));
  ASSERT_TRUE(head.machine.Receive(kBridge, RingToken(0, 8, 2, 'a'), At(2)).ok());
  head.Run(At(2));
  ASSERT_TRUE(head.machine.Receive(kBridge, RingToken(1, 9, 2, 'a'), At(9000)).ok());
  ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(0, 0, 128, true, 'b'), At(9000)).ok());
  EXPECT_TRUE(head.machine.IsSomebodyStreaming(At(9000)));
  EXPECT_LT(StepRows(&head, At(9000), 'b').front(), 128u);
}

TEST(StageMachinePromptTest, ALongPromptIsComputedToItsEndBeforeTheNext) {
  TestStage stage(std::make_unique<ApartEngine>());
  ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1, 'a'), At(0)).ok());
  for (const char name : {'b', 'c'}) {
    ASSERT_TRUE(stage.machine.Open(LongSpec(stage.engine->facts(), 0, 1, name), At(0)).ok());
  }
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'a'), At(1)).ok());
  stage.RunOrders();
  NextStep(&stage, At(1));
  for (const char name : {'b', 'c'}) {
    ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 64, false, name), At(2)).ok());
  }
  std::string order;
  while (stage.machine.HasReady() && order.size() < 1000) {
    for (const auto& [name, rows] : NextStep(&stage, At(2))) {
      if (name != 'a' && (order.empty() || order.back() != name)) order.push_back(name);
    }
  }
  EXPECT_EQ(order, "bc");
}

TEST(StageMachinePromptTest, TellsWhoStreamsFromWhosePromptMayBeUnderWay) {
  TestStage head({0, 4});
  ASSERT_TRUE(head.machine.Open(SpecFor(head.engine->facts(), 0, 2), At(0)).ok());
  ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(1)).ok());
  head.Run(At(1));
  EXPECT_FALSE(head.machine.IsSomebodyStreaming(At(1)));
  ASSERT_TRUE(head.machine.Receive(kBridge, RingToken(0, 8, 2), At(2)).ok());
  head.Run(At(2));
  EXPECT_TRUE(head.machine.IsSomebodyStreaming(At(2)));
  EXPECT_FALSE(head.machine.IsSomebodyStreaming(At(6000)));
}

TEST(StageMachinePromptTest, APromptOnAnExactRouteIsNeverCut) {
  TestStage stage({0, 8});
  ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1, 'a'), At(0)).ok());
  v1::SessionSpec spec = LongSpec(stage.engine->facts(), 0, 1, 'b');
  spec.set_exact(true);
  ASSERT_TRUE(stage.machine.Open(spec, At(0)).ok());
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'a'), At(1)).ok());
  stage.Run(At(1));
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 128, true, 'b'), At(2)).ok());
  EXPECT_EQ(StepRows(&stage, At(2), 'b').front(), 128u);
}

}  // namespace
}  // namespace meshnet
