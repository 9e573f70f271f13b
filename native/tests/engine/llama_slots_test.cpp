// Gaps between llama.cpp's sequences: what they cost, and when one is closed.
#include "engine/llama_slots.h"

#include <gtest/gtest.h>

#include <vector>

namespace meshnet {
namespace {

using namespace std::chrono_literals;
using Slots = std::vector<llama_seq_id>;

TEST(LlamaSlotsTest, TheLowestIsGivenOutFirst) {
  LlamaSlots slots(4, 1ms);
  EXPECT_EQ(slots.Take(), 0);
  EXPECT_EQ(slots.Take(), 1);
  EXPECT_EQ(slots.Take(), 2);
  slots.Free(1);
  slots.Free(0);
  EXPECT_EQ(slots.Take(), 0);
  EXPECT_EQ(slots.Take(), 1);
  EXPECT_EQ(slots.Take(), 3);
}

TEST(LlamaSlotsTest, EveryGapIsAPass) {
  EXPECT_EQ(LlamaSlots::Passes(Slots{3}), 1u);
  EXPECT_EQ(LlamaSlots::Passes(Slots{3, 4, 5}), 1u);
  EXPECT_EQ(LlamaSlots::Passes(Slots{0, 2}), 2u);
  EXPECT_EQ(LlamaSlots::Passes(Slots{0, 2, 3, 7}), 3u);
}

TEST(LlamaSlotsTest, AGapIsClosedOnceItHasCostAsMuchAsTheMove) {
  LlamaSlots slots(8, 10ms);
  for (int i = 0; i < 5; ++i) (void)slots.Take();
  slots.Free(1);
  const Slots used = {0, 2, 3, 4};
  EXPECT_FALSE(slots.CloseGap(used).has_value());
  slots.NoteStep(used, 12ms);  // of which 6 for the gap
  EXPECT_FALSE(slots.CloseGap(used).has_value());
  slots.NoteStep(used, 12ms);
  const std::optional<LlamaSlots::Move> move = slots.CloseGap(used);
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->from, 4);
  EXPECT_EQ(move->to, 1);
  const Slots closed = {0, 1, 2, 3};
  slots.NoteStep(closed, 1h);
  EXPECT_FALSE(slots.CloseGap(closed).has_value());
  EXPECT_EQ(slots.Take(), 4);
}

TEST(LlamaSlotsTest, OnlyAFreeSlotBetweenTheUsedOnesClosesAGap) {
  LlamaSlots slots(8, 1ms);
  for (int i = 0; i < 6; ++i) (void)slots.Take();
  slots.Free(0);
  slots.Free(5);
  const Slots used = {1, 4};  // 2 and 3 are somebody's who has no rows in this step
  slots.NoteStep(used, 1h);
  EXPECT_FALSE(slots.CloseGap(used).has_value());
}

TEST(LlamaSlotsTest, ManyGapsCloseOneAfterTheOther) {
  LlamaSlots slots(16, 1ms);
  for (int i = 0; i < 16; ++i) (void)slots.Take();
  Slots used = {1, 4, 5, 9, 15};
  for (llama_seq_id slot = 0; slot < 16; ++slot) {
    if (std::find(used.begin(), used.end(), slot) == used.end()) slots.Free(slot);
  }
  int moves = 0;
  while (LlamaSlots::Passes(used) > 1) {
    slots.NoteStep(used, 10ms);
    const std::optional<LlamaSlots::Move> move = slots.CloseGap(used);
    ASSERT_TRUE(move.has_value());
    std::replace(used.begin(), used.end(), move->from, move->to);
    std::sort(used.begin(), used.end());
    ASSERT_LE(++moves, 5);
  }
  EXPECT_EQ(used.front(), 1);
  EXPECT_EQ(moves, 2);
}

}  // namespace
}  // namespace meshnet
