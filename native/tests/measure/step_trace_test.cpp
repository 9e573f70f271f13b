// What is told of a step: every moment in the order in which it came.
#include "measure/step_trace.h"

#include <gtest/gtest.h>

#include "session/machine_fixture.h"

namespace meshnet {
namespace {

TEST(StepTrace, HasEveryMomentInOrder) {
  TestStage stage({0, 8});
  ASSERT_TRUE(stage.machine.Open(SpecFor(stage.engine->facts(), 0, 1), At(0)).ok());
  stage.RunOrders();
  ASSERT_TRUE(stage.machine.Receive({}, Chunk(0, 0, 8, true), At(1)).ok());
  stage.machine.AwaitTurn(At(2));
  std::vector<StepItem> items = stage.machine.TakeStep(At(3));
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(TraceSteps(items, {}).empty());  // the engine has not run it
  StepRunner(stage.engine.get()).Run(&items);
  const std::vector<StepMark> marks = {{"graph", At(4)}, {"outputs", At(5)}};
  const std::vector<v1::CapturedStep> traced = TraceSteps(items, marks);
  ASSERT_EQ(traced.size(), 1u);
  const v1::CapturedStep& step = traced.front();
  EXPECT_EQ(step.session(), SessionBytes('s'));
  EXPECT_EQ(step.epoch(), 1u);
  EXPECT_EQ(step.position(), 0u);
  EXPECT_EQ(step.rows(), 8u);
  EXPECT_EQ(step.received_us(), MonotonicMicroseconds(At(1)));
  EXPECT_EQ(step.awake_us(), MonotonicMicroseconds(At(2)));
  EXPECT_EQ(step.taken_us(), MonotonicMicroseconds(At(3)));
  EXPECT_LE(step.begin_us(), step.end_us());
  EXPECT_LE(step.end_us(), step.delivered_us());
  ASSERT_EQ(step.marks_size(), 2);
  EXPECT_EQ(step.marks(0).part(), "graph");
  EXPECT_EQ(step.marks(1).at_us() - step.marks(0).at_us(), 1000u);
}

}  // namespace
}  // namespace meshnet
