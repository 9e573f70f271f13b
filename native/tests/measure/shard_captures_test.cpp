// The debugging captures: bounded, in order, and gone with their shard.
#include "measure/shard_captures.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "measure/step_trace.h"
#include "session/machine_fixture.h"

namespace meshnet {
namespace {

constexpr std::array<float, 3> kRow = {1.0f, -2.5f, 0.0f};

SessionTerms Terms() {
  SessionTerms terms;
  terms.session = ToSessionId(SessionBytes('s'));
  terms.epoch = 3;
  return terms;
}

TimePoint Now() { return std::chrono::steady_clock::now(); }

TEST(ShardCaptures, GivesRowsInOrderAsTheyLay) {
  ShardCaptures captures;
  Capture<v1::CapturedLogits>& capture = captures.logits;
  captures.AddLogits(Terms(), 1, kRow);  // nobody reads yet
  ASSERT_TRUE(capture.Begin().ok());
  captures.AddLogits(Terms(), 8, kRow);
  captures.AddLogits(Terms(), 9, kRow);
  for (const std::uint64_t position : {8u, 9u}) {
    const auto row = capture.Take(Now());
    ASSERT_TRUE(row.ok() && row.value().has_value());
    EXPECT_EQ(row.value()->position(), position);
    EXPECT_EQ(row.value()->session(), SessionBytes('s'));
    EXPECT_EQ(row.value()->epoch(), 3u);
    ASSERT_EQ(row.value()->logits().size(), sizeof(kRow));
    EXPECT_EQ(std::memcmp(row.value()->logits().data(), kRow.data(), sizeof(kRow)), 0);
  }
  const auto none = capture.Take(Now());
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value().has_value());
}

TEST(ShardCaptures, HasOneReaderAtATime) {
  ShardCaptures captures;
  Capture<v1::CapturedLogits>& capture = captures.logits;
  ASSERT_TRUE(capture.Begin().ok());
  EXPECT_EQ(capture.Begin().code(), Code::kNotReady);
  captures.AddLogits(Terms(), 8, kRow);
  capture.End();
  ASSERT_TRUE(capture.Begin().ok());
  EXPECT_FALSE(capture.Take(Now()).value().has_value());  // the row went with its capture
}

TEST(ShardCaptures, EndsWhereTheReaderFallsBehind) {
  ShardCaptures captures;
  Capture<v1::CapturedLogits>& capture = captures.logits;
  ASSERT_TRUE(capture.Begin().ok());
  for (std::uint64_t position = 0; position < Capture<v1::CapturedLogits>::kItemsMax + 2; ++position) {
    captures.AddLogits(Terms(), position, kRow);
  }
  for (std::size_t row = 0; row < Capture<v1::CapturedLogits>::kItemsMax; ++row) {
    ASSERT_TRUE(capture.Take(Now()).value().has_value());
  }
  EXPECT_EQ(capture.Take(Now()).status().code(), Code::kMessageTooLarge);
}

TEST(ShardCaptures, EndsWithItsShard) {
  ShardCaptures captures;
  Capture<v1::CapturedLogits>& capture = captures.logits;
  ASSERT_TRUE(capture.Begin().ok());
  captures.Close();
  EXPECT_EQ(capture.Take(Now()).status().code(), Code::kNotReady);
  capture.End();
  EXPECT_EQ(capture.Begin().code(), Code::kNotReady);
}

TEST(ShardCaptures, GivesStepsInOrder) {
  ShardCaptures captures;
  EXPECT_FALSE(captures.steps.is_running());
  captures.traced.resize(1);
  captures.StepSent(Now());  // nobody reads yet
  ASSERT_TRUE(captures.steps.Begin().ok());
  EXPECT_TRUE(captures.steps.is_running());
  captures.traced.resize(2);
  captures.traced[0].set_position(16);
  captures.traced[1].set_position(17);
  const TimePoint sent_at = Now();
  captures.StepSent(sent_at);
  for (const std::uint64_t position : {16u, 17u}) {
    const auto step = captures.steps.Take(Now());
    ASSERT_TRUE(step.ok() && step.value().has_value());
    EXPECT_EQ(step.value()->position(), position);
    EXPECT_EQ(step.value()->sent_us(), MonotonicMicroseconds(sent_at));
  }
  captures.StepSent(Now());  // of a round without a step
  EXPECT_FALSE(captures.steps.Take(Now()).value().has_value());
}

}  // namespace
}  // namespace meshnet
