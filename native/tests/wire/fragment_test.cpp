#include "wire/fragment.h"

#include <gtest/gtest.h>

#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

v1::Frame LargeFrame(std::uint32_t rows, std::uint32_t width) {
  v1::Frame frame;
  frame.set_session(std::string(kSessionIdBytes, '\x07'));
  frame.set_epoch(1);
  frame.set_to_stage(1);
  frame.set_phase(v1::PHASE_PREFILL);
  frame.set_rows(rows);
  std::vector<float> values(std::size_t{rows} * width);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  AddTensor("hidden", rows, values, &frame);
  return frame;
}

TEST(FragmentTest, PartsStayUnderTheLimitAndJoinToTheSameFrame) {
  const v1::Frame frame = LargeFrame(128, 4096);  // 2 MiB
  std::vector<v1::Frame> parts;
  ASSERT_TRUE(FragmentFrame(v1::Frame(frame), &parts).ok());
  ASSERT_GT(parts.size(), 3u);
  FrameAssembler assembler;
  v1::Frame whole;
  bool complete = false;
  for (v1::Frame& part : parts) {
    ASSERT_FALSE(complete);
    EXPECT_LE(part.ByteSizeLong(), kMaxMessageBytes - kEnvelopeReserveBytes);
    ASSERT_TRUE(CheckFrame(part).ok());
    ASSERT_TRUE(assembler.Add(std::move(part), kMaxTensorBytes, &whole, &complete).ok());
  }
  EXPECT_TRUE(complete);
  EXPECT_EQ(whole.SerializeAsString(), frame.SerializeAsString());
  EXPECT_EQ(assembler.held_bytes(), 0u);
}

TEST(FragmentTest, SmallFrameStaysWhole) {
  std::vector<v1::Frame> parts;
  ASSERT_TRUE(FragmentFrame(LargeFrame(1, 16), &parts).ok());
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_FALSE(parts[0].has_fragment());
}

TEST(FragmentTest, MissingForeignAndOversizedPartsAreRefused) {
  std::vector<v1::Frame> parts;
  ASSERT_TRUE(FragmentFrame(LargeFrame(128, 4096), &parts).ok());
  v1::Frame whole;
  bool complete = false;
  FrameAssembler skips;
  EXPECT_EQ(skips.Add(v1::Frame(parts[1]), kMaxTensorBytes, &whole, &complete).code(), Code::kSequenceGap);
  FrameAssembler differs;
  ASSERT_TRUE(differs.Add(v1::Frame(parts[0]), kMaxTensorBytes, &whole, &complete).ok());
  v1::Frame other = parts[1];
  other.set_position(99);
  EXPECT_EQ(differs.Add(std::move(other), kMaxTensorBytes, &whole, &complete).code(), Code::kMalformed);
  FrameAssembler small;
  EXPECT_EQ(small.Add(v1::Frame(parts[0]), 1024, &whole, &complete).code(), Code::kMessageTooLarge);
}

// Source: docs/wire.md, Frames: rows x width x 4 + at most 160 + 24 x stages bytes of everything else.
TEST(FrameSizeTest, DecodeHeadersStaySmallAtAnyPosition) {
  for (const std::uint32_t stages : {2u, 9u, 64u}) {
    v1::Frame frame;
    frame.set_session(std::string(kSessionIdBytes, '\xff'));
    frame.set_epoch(1000);
    frame.set_from_stage(62);
    frame.set_to_stage(63);
    frame.set_seq(1u << 20);
    frame.set_phase(v1::PHASE_DECODE);
    frame.set_position(kMaxPosition - 1);
    frame.set_rows(1);
    frame.add_token_ids(kMaxTokenId);
    frame.add_logits_rows(0);
    frame.set_budget_ms(3'600'000);
    const std::vector<float> row(576, 1.0f);
    AddTensor("hidden", 1, row, &frame);
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      v1::StageResidence* residence = frame.add_residence();
      residence->set_stage(stage);
      residence->set_queue_us(2'000'000);
      residence->set_compute_us(2'000'000);
      residence->set_codec_us(2'000'000);
    }
    EXPECT_LE(frame.ByteSizeLong(), 576 * 4 + 160 + 24 * stages);
  }
}

TEST(TakeRowsTest, PiecesAreTheRowsOfTheFrameInOrder) {
  v1::Frame frame = LargeFrame(10, 4);
  frame.set_position(100);
  frame.set_seq(7);
  frame.set_rewind(true);
  frame.set_prompt_end(true);
  frame.add_logits_rows(9);
  frame.set_budget_ms(50);
  frame.add_residence()->set_queue_us(3);
  for (std::uint32_t row = 0; row < 10; ++row) frame.add_token_ids(row);
  ASSERT_TRUE(CheckFrame(frame).ok());
  const v1::Frame whole = frame;
  const v1::Frame first = TakeRows(4, &frame);
  ASSERT_TRUE(CheckFrame(first).ok());
  ASSERT_TRUE(CheckFrame(frame).ok());
  EXPECT_EQ(first.rows(), 4u);
  EXPECT_EQ(first.position(), 100u);
  EXPECT_EQ(first.seq(), 7u);
  EXPECT_TRUE(first.rewind());
  EXPECT_FALSE(first.prompt_end());
  EXPECT_EQ(first.logits_rows_size(), 0);
  EXPECT_EQ(first.residence_size(), 0);
  EXPECT_EQ(first.budget_ms(), 50u);
  EXPECT_EQ(frame.rows(), 6u);
  EXPECT_EQ(frame.position(), 104u);
  EXPECT_EQ(frame.seq(), 7u);
  EXPECT_FALSE(frame.rewind());
  EXPECT_TRUE(frame.prompt_end());
  EXPECT_EQ(frame.logits_rows(0), 5u);
  EXPECT_EQ(frame.residence_size(), 1);
  EXPECT_EQ(first.tensors(0).data() + frame.tensors(0).data(), whole.tensors(0).data());
  for (int row = 0; row < 10; ++row) {
    EXPECT_EQ(row < 4 ? first.token_ids(row) : frame.token_ids(row - 4), whole.token_ids(row));
  }
}

}  // namespace
}  // namespace meshnet
