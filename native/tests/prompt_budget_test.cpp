// How large a piece of a prompt chunk is while others decode.
#include "prompt_budget.h"

#include <gtest/gtest.h>

#include "protocol_limits.h"

namespace meshnet {
namespace {

TEST(PromptBudgetTest, RowsTakeALittleLessThanADecodeStep) {
  PromptBudget budget;
  EXPECT_EQ(budget.rows(), PromptBudget::kRowsUnmeasured);
  budget.Note(true, 128, 128'000);  // 1 ms a row
  EXPECT_EQ(budget.rows(), PromptBudget::kRowsUnmeasured);
  budget.Note(false, 4, 40'000);
  EXPECT_EQ(budget.rows(), 36u);
}

TEST(PromptBudgetTest, FollowsWhatStepsTake) {
  PromptBudget budget;
  budget.Note(true, 128, 128'000);
  budget.Note(false, 1, 40'000);
  for (int step = 0; step < 50; ++step) budget.Note(false, 16, 80'000);
  EXPECT_EQ(budget.rows(), 71u);  // from below
  // Small pieces cost more a row, since the weights are read for each.
  for (int step = 0; step < 50; ++step) budget.Note(true, 16, 80'000);
  EXPECT_EQ(budget.rows(), 14u);
  for (int step = 0; step < 50; ++step) budget.Note(true, 1, 80'000);
  EXPECT_EQ(budget.rows(), PromptBudget::kRowsMin);
}

TEST(PromptBudgetTest, StaysWithinWhatAFrameMayHold) {
  PromptBudget budget;
  budget.Note(true, 8192, 1);
  budget.Note(false, 1, 4'000'000'000u);
  EXPECT_EQ(budget.rows(), kMaxRows);
  PromptBudget slow;
  slow.Note(true, 1, 4'000'000'000u);
  slow.Note(false, 1, 1);
  EXPECT_EQ(slow.rows(), PromptBudget::kRowsMin);
  PromptBudget nothing;
  nothing.Note(true, 0, 100);
  nothing.Note(false, 1, 0);
  EXPECT_EQ(nothing.rows(), PromptBudget::kRowsUnmeasured);
}

TEST(PromptBudgetTest, PiecesAreAllButEquallyLong) {
  EXPECT_EQ(PieceRows(128, kMaxRows), 128u);
  EXPECT_EQ(PieceRows(128, 128), 128u);
  EXPECT_EQ(PieceRows(128, 100), 64u);
  EXPECT_EQ(PieceRows(17, 16), 9u);
  EXPECT_EQ(PieceRows(1, 16), 1u);
  for (std::uint32_t chunk = 1; chunk <= 300; ++chunk) {
    std::uint32_t left = chunk;
    std::uint32_t least = chunk;
    while (left > 0) {
      const std::uint32_t rows = PieceRows(left, 16);
      ASSERT_GE(rows, 1u);
      ASSERT_LE(rows, 16u);
      least = std::min(least, rows);
      left -= rows;
    }
    EXPECT_GE(least, std::min(chunk, 8u)) << chunk;
  }
}

}  // namespace
}  // namespace meshnet
