// Sessions on one stage: admission, steps, deadlines, endings; each released once.
#include "session/stage_machine.h"

#include <gtest/gtest.h>

#include "session/machine_fixture.h"

namespace meshnet {
namespace {

const Origin kBridge{};

TEST(StageMachineTest, AWholeModelGeneratesUntilItsWindowAndGoesOnWithAcknowledgements) {
  TestStage stage({0, 8});
  ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1), At(0)).ok());
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(1)).ok());
  stage.Run(At(1));
  std::vector<v1::EdgeMessage> tokens = stage.TakeEdgeMessages(v1::EdgeMessage::kToken);
  ASSERT_EQ(tokens.size(), 4u);  // the token window
  EXPECT_EQ(tokens[0].token().position(), 8u);
  EXPECT_EQ(tokens[3].token().index(), 3u);
  EXPECT_EQ(stage.TakeEdgeMessages(v1::EdgeMessage::kAck).size(), 1u);
  EXPECT_EQ(stage.TakeEdgeMessages(v1::EdgeMessage::kPrefill).at(0).prefill().done(), 8u);
  std::size_t total = tokens.size();
  while (total < 20) {
    const std::uint64_t last = tokens.back().token().index();
    ASSERT_TRUE(stage.machine.Receive(kBridge, AckOn({0, kGatewayStage}, last), At(2)).ok());
    stage.Run(At(2));
    tokens = stage.TakeEdgeMessages(v1::EdgeMessage::kToken);
    ASSERT_EQ(tokens.size(), 4u);
    total += tokens.size();
  }
  EXPECT_EQ(tokens.back().token().finish(), v1::FINISH_REASON_LENGTH);
  EXPECT_TRUE(stage.machine.Close(ToSessionId(SessionBytes('s')), 1, At(3)));
  EXPECT_FALSE(stage.machine.Close(ToSessionId(SessionBytes('s')), 1, At(3)));
  stage.Run(At(3));
  EXPECT_EQ(stage.opened, 1);
  EXPECT_EQ(stage.closed, 1);
  EXPECT_EQ(stage.machine.table().kv_cells_reserved(), 0u);
}

TEST(StageMachineTest, EventsThatWereNotAcknowledgedAreSentAgain) {
  TestStage stage({0, 8});
  ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1), At(0)).ok());
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(1)).ok());
  stage.Run(At(1));
  const std::vector<v1::EdgeMessage> first = stage.TakeEdgeMessages(v1::EdgeMessage::kToken);
  stage.machine.AttachBridge();
  const std::vector<v1::EdgeMessage> again = stage.TakeEdgeMessages(v1::EdgeMessage::kToken);
  ASSERT_EQ(again.size(), first.size());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].SerializeAsString(), again[i].SerializeAsString());
}

TEST(StageMachineTest, ASessionWithoutCreditIsNotBatchedAndOthersGoOn) {
  TestStage head({0, 4});
  for (const char name : {'a', 'b'}) {
    ASSERT_TRUE(head.machine.Open(SpecFor(head.engine->facts(), 0, 2, name), At(0)).ok());
  }
  std::uint64_t position = 0;
  for (std::uint64_t seq = 0; seq < 3; ++seq, ++position) {
    ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(seq, position, 1, false, 'a'), At(1)).ok());
    head.Run(At(1));
  }
  EXPECT_EQ(head.TakeFrames().size(), 2u);  // the window of the seam
  ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(0, 0, 1, false, 'b'), At(2)).ok());
  head.Run(At(2));
  EXPECT_EQ(head.TakeFrames().size(), 1u);
  ASSERT_TRUE(head.machine.Receive(kBridge, AckOn({0, 1}, 0, 'a'), At(3)).ok());
  head.Run(At(3));
  EXPECT_EQ(head.TakeFrames().size(), 1u);
}

TEST(StageMachineTest, RowsThatWaitForTheTurnFailAtTheirStepDeadlineAndOthersAreLeftAlone) {
  TestStage stage({0, 8});
  for (const char name : {'a', 'b', 'c'}) {
    ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1, name), At(0)).ok());
  }
  stage.RunOrders();
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'a'), At(1)).ok());
  stage.machine.AwaitTurn(At(10));
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'b'), At(500)).ok());
  EXPECT_EQ(stage.machine.Tick(At(1009)), At(1010));
  EXPECT_EQ(stage.TakeFailure(), "");
  EXPECT_EQ(stage.machine.Tick(At(1010)), At(1500));
  EXPECT_EQ(stage.TakeFailure(), "step_timeout");
  EXPECT_EQ(stage.machine.table().open().size(), 2u);
  // With the turn, what became ready meanwhile is taken too.
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, 'c'), At(1100)).ok());
  stage.RunOrders();
  EXPECT_EQ(stage.machine.TakeStep(At(1200)).size(), 2u);
}

TEST(StageMachineTest, DeadlinesFailTheirSessionWithTheirCode) {
  TestStage idle({0, 8});
  ASSERT_TRUE(idle.machine.Open(SpecFor(idle.engine->facts(), 0, 1), At(0)).ok());
  EXPECT_EQ(idle.machine.Tick(At(4999)), At(5000));
  EXPECT_EQ(idle.TakeFailure(), "");
  (void)idle.machine.Tick(At(5000));
  EXPECT_EQ(idle.TakeFailure(), "idle");

  TestStage silent({0, 8});
  ASSERT_TRUE(silent.machine.Open(SpecFor(silent.engine->facts(), 0, 1), At(0)).ok());
  ASSERT_TRUE(silent.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(0)).ok());
  silent.Run(At(100));
  EXPECT_EQ(silent.machine.Tick(At(100)), At(600));
  (void)silent.machine.Tick(At(600));
  EXPECT_EQ(silent.TakeFailure(), "gateway_lost");

  TestStage slow({0, 8});
  ASSERT_TRUE(slow.machine.Open(SpecFor(slow.engine->facts(), 0, 1), At(0)).ok());
  ASSERT_TRUE(slow.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(0)).ok());
  slow.RunOrders();
  std::vector<StepItem> items = slow.machine.TakeStep(At(10));
  ASSERT_EQ(items.size(), 1u);
  (void)slow.machine.Tick(At(1010));
  EXPECT_EQ(slow.TakeFailure(), "step_timeout");
  slow.machine.CommitStep(std::move(items), At(2000));  // comes too late: dropped
  EXPECT_TRUE(slow.TakeEdgeMessages(v1::EdgeMessage::kToken).empty());

  TestStage unanswered({0, 4});
  ASSERT_TRUE(unanswered.machine.Open(SpecFor(unanswered.engine->facts(), 0, 2), At(0)).ok());
  ASSERT_TRUE(unanswered.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(0)).ok());
  unanswered.Run(At(0));
  (void)unanswered.machine.Tick(At(1000));
  const std::vector<v1::EdgeMessage> failures = unanswered.TakeEdgeMessages(v1::EdgeMessage::kFailure);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].failure().code(), "step_timeout");
  EXPECT_EQ(failures[0].failure().stage(), 1u);
}

// A head whose prompt the next stage has acknowledged at 0.
std::unique_ptr<TestStage> HeadWithoutAToken(std::uint32_t n_stages, std::uint32_t gateway_grace_ms) {
  auto head = std::make_unique<TestStage>(LayerSpan{0, 4});
  v1::SessionSpec spec = SpecFor(head->engine->facts(), 0, n_stages);
  spec.set_gateway_grace_ms(gateway_grace_ms);
  spec.set_idle_ms(60'000);
  EXPECT_TRUE(head->machine.Open(spec, At(0)).ok());
  EXPECT_TRUE(head->machine.Receive(kBridge, Chunk(0, 0, 8, true), At(0)).ok());
  head->Run(At(0));
  EXPECT_TRUE(head->machine.Receive(kBridge, AckOn({0, 1}, 0), At(0)).ok());
  return head;
}

TEST(StageMachineTest, ATokenThatDoesNotComeBackIsTheTailsFaultOnceAllStagesHadTheirTime) {
  struct Case {
    std::uint32_t n_stages;
    std::uint32_t gateway_grace_ms;
    int due_ms;
  };
  // A step is 1000 ms, a seam's window 2 frames: a prompt's last chunk may stand behind another at each seam.
  for (const Case& given : {Case{2, 500, 1000}, Case{2, 900, 1800}, Case{4, 500, 2 * 2 * 1000 + 1000}}) {
    const auto head = HeadWithoutAToken(given.n_stages, given.gateway_grace_ms);
    EXPECT_EQ(head->machine.Tick(At(given.due_ms - 1)), At(given.due_ms));
    EXPECT_EQ(head->TakeFailure(), "");
    (void)head->machine.Tick(At(given.due_ms));
    const std::vector<v1::EdgeMessage> failures = head->TakeEdgeMessages(v1::EdgeMessage::kFailure);
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].failure().code(), "step_timeout");
    EXPECT_EQ(failures[0].failure().stage(), given.n_stages - 1);
  }
}

TEST(StageMachineTest, ATokenIsOwedForEveryRowHandedOnAndOnlyThen) {
  const auto head = HeadWithoutAToken(4, 500);
  // In time: nothing is owed while the head computes, then the next stage owes its acknowledgement first.
  ASSERT_TRUE(head->machine.Receive(kBridge, RingToken(0, 8, 4), At(900)).ok());
  (void)head->machine.Tick(At(20'000));
  EXPECT_EQ(head->TakeFailure(), "");
  head->Run(At(20'000));
  EXPECT_EQ(head->machine.Tick(At(20'001)), At(21'000));
  ASSERT_TRUE(head->machine.Receive(kBridge, AckOn({0, 1}, 1), At(20'100)).ok());
  // A token's row stands alone: one step for each of the two stages behind, one for the way home.
  EXPECT_EQ(head->machine.Tick(At(23'099)), At(23'100));
  EXPECT_EQ(head->TakeFailure(), "");
  (void)head->machine.Tick(At(23'100));
  EXPECT_EQ(head->TakeFailure(), "step_timeout");
  // Neither before the prompt's end, nor on other stages.
  TestStage early({0, 4});
  ASSERT_TRUE(early.machine.Open(SpecFor(early.engine->facts(), 0, 2), At(0)).ok());
  ASSERT_TRUE(early.machine.Receive(kBridge, Chunk(0, 0, 4, false), At(0)).ok());
  early.Run(At(0));
  ASSERT_TRUE(early.machine.Receive(kBridge, AckOn({0, 1}, 0), At(0)).ok());
  EXPECT_EQ(early.machine.Tick(At(4999)), At(5000));
  EXPECT_EQ(early.TakeFailure(), "");
}

TEST(StageMachineTest, AStageThatFailsTellsWhoeverSendsToItAndNobodyElse) {
  struct Case {
    LayerSpan layers;
    std::uint32_t stage;
    Edge told;
  };
  for (const Case& given : {Case{{0, 3}, 0, {2, 0}}, Case{{3, 6}, 1, {0, 1}}, Case{{6, 8}, 2, {1, 2}}}) {
    TestStage stage(given.layers);
    ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), given.stage, 3), At(0)).ok());
    (void)stage.machine.Tick(At(5000));
    EXPECT_EQ(stage.TakeFailure(), "idle");
    const std::vector<v1::EdgeMessage> gone = stage.TakeEdgeMessages(v1::EdgeMessage::kGone);
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_EQ((Edge{gone[0].from_stage(), gone[0].to_stage()}), given.told);
    EXPECT_EQ(gone[0].gone().reason(), "idle");
  }
  // What everybody was told to close needs no farewell.
  TestStage closed({3, 8});
  ASSERT_TRUE(closed.machine.Open(SpecFor(closed.engine->facts(), 1, 2), At(0)).ok());
  EXPECT_TRUE(closed.machine.Close(ToSessionId(SessionBytes('s')), 1, At(1)));
  EXPECT_TRUE(closed.TakeEdgeMessages(v1::EdgeMessage::kGone).empty());
}

TEST(StageMachineTest, TimeSpentWaitingCountsAgainstTheBudget) {
  TestStage stage({0, 8});
  ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1), At(0)).ok());
  v1::Frame chunk = Chunk(0, 0, 8, true);
  chunk.set_budget_ms(50);
  ASSERT_TRUE(stage.machine.Receive(kBridge, std::move(chunk), At(0)).ok());
  stage.Run(At(50));
  EXPECT_EQ(stage.TakeFailure(), "step_timeout");
}

TEST(StageMachineTest, ANeighboursFarewellIsReportedOnlyIfTheGatewayDoesNotCloseFirst) {
  v1::EdgeMessage gone = AckOn({0, 1}, 0);
  gone.mutable_gone()->set_reason("unknown_session");
  TestStage closed({0, 4});
  ASSERT_TRUE(closed.machine.Open(SpecFor(closed.engine->facts(), 0, 2), At(0)).ok());
  ASSERT_TRUE(closed.machine.Receive(kBridge, v1::EdgeMessage(gone), At(0)).ok());
  EXPECT_TRUE(closed.machine.Close(ToSessionId(SessionBytes('s')), 1, At(100)));
  (void)closed.machine.Tick(At(1000));
  EXPECT_EQ(closed.TakeFailure(), "");
  TestStage left({0, 4});
  ASSERT_TRUE(left.machine.Open(SpecFor(left.engine->facts(), 0, 2), At(0)).ok());
  ASSERT_TRUE(left.machine.Receive(kBridge, v1::EdgeMessage(gone), At(0)).ok());
  (void)left.machine.Tick(At(1000));
  EXPECT_EQ(left.TakeFailure(), "stage_lost");
}

TEST(StageMachineTest, AdmissionReservesAndRefuses) {
  TestStage stage({0, 8}, 2, 60);
  const ShardFacts& facts = stage.engine->facts();
  const auto open = [&](char name, std::uint32_t epoch) {
    return stage.machine.Open(SpecFor(facts, 0, 1, name, epoch), At(0)).status().code();
  };
  EXPECT_EQ(open('a', 2), Code::kOk);
  EXPECT_EQ(open('a', 2), Code::kSessionExists);
  EXPECT_EQ(open('a', 1), Code::kOldEpoch);
  EXPECT_EQ(open('b', 1), Code::kOk);
  EXPECT_EQ(open('c', 1), Code::kTooManySessions);
  EXPECT_TRUE(stage.machine.Close(ToSessionId(SessionBytes('b')), 1, At(0)));
  EXPECT_EQ(open('c', 1), Code::kTooManySessions);  // the engine has not let go yet
  stage.Run(At(0));
  EXPECT_EQ(open('c', 1), Code::kOk);
  EXPECT_EQ(open('b', 1), Code::kOldEpoch);
  TestStage small({0, 8}, 4, 50);
  EXPECT_TRUE(small.machine.Open(SpecFor(small.engine->facts(), 0, 1, 'a'), At(0)).ok());
  EXPECT_EQ(small.machine.Open(SpecFor(small.engine->facts(), 0, 1, 'b'), At(0)).status().code(), Code::kKvExhausted);
}

TEST(StageMachineTest, ANewerEpochTakesTheOldersPlaceAndClosedOnesAreRememberedForAMinute) {
  TestStage stage({0, 8});
  const ShardFacts& facts = stage.engine->facts();
  ASSERT_TRUE(stage.machine.Open(SpecFor(facts, 0, 1, 's', 1), At(0)).ok());
  ASSERT_TRUE(stage.machine.Open(SpecFor(facts, 0, 1, 's', 2), At(0)).ok());
  EXPECT_EQ(stage.machine.table().open().size(), 1u);
  ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(1)).ok());
  const std::vector<v1::EdgeMessage> gone = stage.TakeEdgeMessages(v1::EdgeMessage::kGone);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].gone().reason(), "old_epoch");
  EXPECT_TRUE(stage.machine.Close(ToSessionId(SessionBytes('s')), 2, At(2)));
  EXPECT_EQ(stage.machine.Open(SpecFor(facts, 0, 1, 's', 2), At(60'000)).status().code(), Code::kOldEpoch);
  EXPECT_TRUE(stage.machine.Open(SpecFor(facts, 0, 1, 's', 2), At(60'003)).ok());
}

TEST(StageMachineTest, APeerMayUseItsOwnEdgesOnly) {
  TestStage head({0, 4});
  v1::SessionSpec spec = SpecFor(head.engine->facts(), 0, 2);
  const std::string pinned(32, 'p');
  for (v1::EdgeSpec& edge : *spec.mutable_edges()) {
    if (edge.from_stage() == kGatewayStage) continue;
    edge.set_carrier(v1::EdgeSpec::CARRIER_DIRECT);
    edge.set_peer_fingerprint(pinned);
  }
  ASSERT_TRUE(head.machine.Open(spec, At(0)).ok());
  const Origin peer{Carrier::kPeer, pinned};
  const Origin unknown_peer{Carrier::kPeer, std::string(32, 'x')};
  EXPECT_TRUE(head.machine.Knows(pinned));
  EXPECT_FALSE(head.machine.Knows(unknown_peer.fingerprint));
  EXPECT_EQ(head.machine.Receive(unknown_peer, AckOn({0, 1}, 0), At(0)).code(), Code::kEdgeNotPermitted);
  EXPECT_EQ(head.machine.Receive(peer, Chunk(0, 0, 8, true), At(0)).code(), Code::kEdgeNotPermitted);
  EXPECT_EQ(head.machine.table().open().size(), 1u);  // unharmed
  EXPECT_TRUE(head.machine.Receive(peer, AckOn({0, 1}, 0), At(0)).ok());
  EXPECT_EQ(head.TakeFailure(), "malformed");  // allowed, but nothing was sent yet
  ASSERT_TRUE(head.machine
                  .Open(
                      [&] {
                        spec.set_epoch(2);
                        return spec;
                      }(),
                      At(0))
                  .ok());
  head.machine.LosePeer(pinned, "gone", At(1));
  EXPECT_EQ(head.TakeFailure(), "stage_lost");
}

TEST(StageMachineTest, DecodeRowsShareAStep) {
  TestStage stage({0, 8});
  for (const char name : {'a', 'b', 'c'}) {
    ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1, name), At(0)).ok());
    ASSERT_TRUE(stage.machine.Receive(kBridge, Chunk(0, 0, 8, true, name), At(0)).ok());
  }
  stage.Run(At(0));
  const StageCounters& counters = stage.machine.counters();
  EXPECT_EQ(counters.rows, 3u * (8 + 3));
  EXPECT_EQ(counters.steps, 1u + 3u);  // three prompts together, then three rows a step
}

TEST(StageMachineTest, AwaitsTheRowsOfThoseWhoDecodeElsewhere) {
  TestStage head({0, 4});
  EXPECT_FALSE(head.machine.AwaitsRows(At(0)));
  ASSERT_TRUE(head.machine.Open(SpecFor(head.engine->facts(), 0, 2), At(0)).ok());
  EXPECT_FALSE(head.machine.AwaitsRows(At(0)));
  ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(1)).ok());
  head.Run(At(1));
  EXPECT_TRUE(head.machine.AwaitsRows(At(1)));
  ASSERT_TRUE(head.machine.Receive(kBridge, RingToken(0, 8, 2), At(2)).ok());
  EXPECT_FALSE(head.machine.AwaitsRows(At(2)));
  head.Run(At(2));
  EXPECT_TRUE(head.machine.AwaitsRows(At(2)));
  EXPECT_FALSE(head.machine.AwaitsRows(At(6000)));  // its client may be stalled
  (void)head.machine.Close(ToSessionId(SessionBytes('s')), 1, At(3));
  EXPECT_FALSE(head.machine.AwaitsRows(At(3)));
}

}  // namespace
}  // namespace meshnet
