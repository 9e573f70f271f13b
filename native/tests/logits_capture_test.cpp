// The debugging capture of logits: bounded, in order, and gone with its shard.
#include "logits_capture.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "machine_fixture.h"

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

TEST(LogitsCapture, GivesRowsInOrderAsTheyLay) {
  LogitsCapture capture;
  capture.Add(Terms(), 1, kRow);  // nobody reads yet
  ASSERT_TRUE(capture.Begin().ok());
  capture.Add(Terms(), 8, kRow);
  capture.Add(Terms(), 9, kRow);
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

TEST(LogitsCapture, HasOneReaderAtATime) {
  LogitsCapture capture;
  ASSERT_TRUE(capture.Begin().ok());
  EXPECT_EQ(capture.Begin().code(), Code::kNotReady);
  capture.Add(Terms(), 8, kRow);
  capture.End();
  ASSERT_TRUE(capture.Begin().ok());
  EXPECT_FALSE(capture.Take(Now()).value().has_value());  // the row went with its capture
}

TEST(LogitsCapture, EndsWhereTheReaderFallsBehind) {
  LogitsCapture capture;
  ASSERT_TRUE(capture.Begin().ok());
  for (std::uint64_t position = 0; position < LogitsCapture::kRowsMax + 2; ++position) {
    capture.Add(Terms(), position, kRow);
  }
  for (std::size_t row = 0; row < LogitsCapture::kRowsMax; ++row) {
    ASSERT_TRUE(capture.Take(Now()).value().has_value());
  }
  EXPECT_EQ(capture.Take(Now()).status().code(), Code::kMessageTooLarge);
}

TEST(LogitsCapture, EndsWithItsShard) {
  LogitsCapture capture;
  ASSERT_TRUE(capture.Begin().ok());
  capture.Close();
  EXPECT_EQ(capture.Take(Now()).status().code(), Code::kNotReady);
  capture.End();
  EXPECT_EQ(capture.Begin().code(), Code::kNotReady);
}

}  // namespace
}  // namespace meshnet
