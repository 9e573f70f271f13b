// How large a piece of a prompt chunk is while others decode.
#include "session/prompt_budget.h"

#include <gtest/gtest.h>

#include "wire/protocol_limits.h"

namespace meshnet {
namespace {

constexpr double kNoLimit = 1e12;

TEST(PromptBudgetTest, RowsTakeALittleLessThanADecodeStep) {
  PromptBudget budget;
  EXPECT_EQ(budget.rows(1, 1, kNoLimit), PromptBudget::kRowsUnmeasured);
  budget.Note(true, 128, 128'000);  // 1 ms a row
  EXPECT_EQ(budget.rows(1, 1, kNoLimit), PromptBudget::kRowsUnmeasured);
  budget.Note(false, 4, 40'000);
  EXPECT_EQ(budget.rows(4, 1, kNoLimit), 36u);
}

TEST(PromptBudgetTest, StepsOfTheWholeCompanyCount) {
  PromptBudget budget;
  budget.Note(true, 128, 128'000);
  budget.Note(false, 4, 40'000);
  EXPECT_EQ(budget.rows(4, 1, kNoLimit), 36u);
  EXPECT_EQ(budget.rows(1, 1, kNoLimit), 36u);
  EXPECT_EQ(budget.rows(0, 1, kNoLimit), 36u);  // those who decode elsewhere on the machine are not counted here
  EXPECT_EQ(budget.rows(4, 2, kNoLimit), 76u);
  budget.Note(false, 8, 80'000);
  EXPECT_EQ(budget.rows(4, 1, kNoLimit), 36u);
  EXPECT_EQ(budget.rows(7, 1, kNoLimit), 46u);  // one of 7 was not seen, but one of 4
  EXPECT_EQ(budget.rows(8, 1, kNoLimit), 72u);
  EXPECT_EQ(budget.rows(4, 4, kNoLimit), 352u);
  budget.Note(false, 5000, 100'000);
  EXPECT_EQ(budget.rows(5000, 1, kNoLimit), 90u);
  EXPECT_EQ(budget.rows(4, 4, 50'000), 50u);
  EXPECT_EQ(budget.rows(4, 4, 0), PromptBudget::kRowsMin);
  PromptBudget odd;
  odd.Note(true, 128, 128'000);
  odd.Note(false, 1, 90'000);
  odd.Note(false, 2, 10'000);
  EXPECT_EQ(odd.rows(1, 1, kNoLimit), PromptBudget::kRowsMin);
}

TEST(PromptBudgetTest, ALargeStepOfLongAgoDoesNotOutweighThoseOfNow) {
  PromptBudget budget;
  budget.Note(true, 128, 128'000);
  budget.Note(false, 5, 90'000);  // something else had the machine
  budget.Note(false, 4, 40'000);
  EXPECT_EQ(budget.rows(4, 1, kNoLimit), 55u);  // 50 ms for five, not 90
}

TEST(PromptBudgetTest, FollowsWhatStepsTake) {
  PromptBudget budget;
  budget.Note(true, 128, 128'000);
  budget.Note(false, 1, 40'000);
  for (int step = 0; step < 50; ++step) budget.Note(false, 1, 80'000);
  EXPECT_EQ(budget.rows(1, 1, kNoLimit), 71u);  // from below
  // Small pieces cost more a row, since the weights are read for each.
  for (int step = 0; step < 50; ++step) budget.Note(true, 16, 80'000);
  EXPECT_EQ(budget.rows(1, 1, kNoLimit), 14u);
  for (int step = 0; step < 50; ++step) budget.Note(true, 1, 80'000);
  EXPECT_EQ(budget.rows(1, 1, kNoLimit), PromptBudget::kRowsMin);
}

TEST(PromptBudgetTest, StaysWithinWhatAFrameMayHold) {
  PromptBudget budget;
  budget.Note(true, 8192, 1);
  budget.Note(false, 1, 4'000'000'000u);
  EXPECT_EQ(budget.rows(1, 1, kNoLimit), kMaxRows);
  PromptBudget slow;
  slow.Note(true, 1, 4'000'000'000u);
  slow.Note(false, 1, 1);
  EXPECT_EQ(slow.rows(1, 1, kNoLimit), PromptBudget::kRowsMin);
  PromptBudget nothing;
  nothing.Note(true, 0, 100);
  nothing.Note(false, 1, 0);
  EXPECT_EQ(nothing.rows(1, 1, kNoLimit), PromptBudget::kRowsUnmeasured);
}

TEST(PromptBudgetTest, PiecesAreAllButEquallyLong) {
  EXPECT_EQ(PieceRows(128, kMaxRows), 128u);
  EXPECT_EQ(PieceRows(128, 128), 128u);
  EXPECT_EQ(PieceRows(128, 100), 64u);
  EXPECT_EQ(PieceRows(20, 16), 20u);
  EXPECT_EQ(PieceRows(21, 16), 11u);
  EXPECT_EQ(PieceRows(3, 2), 2u);
  EXPECT_EQ(PieceRows(1, 16), 1u);
  for (std::uint32_t chunk = 1; chunk <= 300; ++chunk) {
    std::uint32_t left = chunk;
    std::uint32_t least = chunk;
    while (left > 0) {
      const std::uint32_t rows = PieceRows(left, 16);
      ASSERT_GE(rows, 1u);
      ASSERT_LE(rows, 20u);
      least = std::min(least, rows);
      left -= rows;
    }
    EXPECT_GE(least, std::min(chunk, 8u)) << chunk;
  }
}

}  // namespace
}  // namespace meshnet
