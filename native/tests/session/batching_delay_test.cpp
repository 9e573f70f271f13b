// Delaying a step for a fuller batch, ever more rarely if no rows arrive meanwhile.
#include "session/batching_delay.h"

#include <gtest/gtest.h>

namespace meshnet {
namespace {

int WaitsIn(BatchingDelay* wait, int steps, bool has_come) {
  int waits = 0;
  for (int step = 0; step < steps; ++step) {
    if (!wait->IsWorthwhile()) continue;
    ++waits;
    wait->Note(has_come);
  }
  return waits;
}

TEST(BatchingDelayTest, WaitsEachTimeWhileSomebodyComes) {
  BatchingDelay wait;
  EXPECT_EQ(WaitsIn(&wait, 100, true), 100);
}

TEST(BatchingDelayTest, WaitsEverMoreRarelyWhereNobodyComes) {
  BatchingDelay wait;
  EXPECT_EQ(WaitsIn(&wait, 134, false), 7);  // after 1, 2, 4, 8, 16, 32 and 64 steps
  EXPECT_EQ(WaitsIn(&wait, 650, false), 10);
}

TEST(BatchingDelayTest, OneThatPaysEndsTheRarity) {
  BatchingDelay wait;
  WaitsIn(&wait, 1000, false);
  while (!wait.IsWorthwhile()) {
  }
  wait.Note(true);
  EXPECT_TRUE(wait.IsWorthwhile());
}

}  // namespace
}  // namespace meshnet
