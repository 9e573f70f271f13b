// Sessions whose seams are packed: admission by codec, frames of the agreed one alone, and what the next stage takes.
#include <gtest/gtest.h>

#include <functional>

#include "session/machine_fixture.h"
#include "wire/fragment.h"
#include "wire/seam_codec.h"
#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

constexpr std::uint32_t kWide = 64;
const Origin kBridge{};

std::unique_ptr<ShardEngine> LoadWide(LayerSpan layers, std::uint32_t width) {
  LoadPlan plan;
  plan.fake_layers = 8;
  plan.fake_width = width;
  plan.layers = layers;
  plan.context_length = 256;
  plan.max_sessions = 4;
  return std::move(FakeEngine::Load(plan, [](float) { return true; }).value());
}

v1::SessionSpec PackedSpec(const ShardFacts& facts, std::uint32_t stage, std::uint32_t n_stages, v1::Codec codec) {
  v1::SessionSpec spec = SpecFor(facts, stage, n_stages);
  for (v1::EdgeSpec& edge : *spec.mutable_edges()) {
    if (edge.from_stage() < edge.to_stage() && edge.to_stage() != kGatewayStage) edge.set_codec(codec);
  }
  return spec;
}

v1::Frame RowsFrame(v1::Codec codec, const std::vector<float>& values, std::uint32_t rows) {
  v1::Frame frame = Chunk(0, 0, rows, true);
  frame.clear_token_ids();
  frame.set_from_stage(0);
  frame.set_to_stage(1);
  EXPECT_TRUE(PackRows(codec, kHiddenTensor, rows, values, frame.add_tensors()).ok());
  return frame;
}

class PackedSeams : public testing::TestWithParam<v1::Codec> {};

TEST_P(PackedSeams, AChunkCrossesInTheAgreedCodecAndATokenComesOfIt) {
  TestStage head(LoadWide({0, 4}, kWide));
  TestStage tail(LoadWide({4, 8}, kWide));
  ASSERT_TRUE(head.machine.Open(PackedSpec(head.engine->facts(), 0, 2, GetParam()), At(0)).ok());
  ASSERT_TRUE(tail.machine.Open(PackedSpec(tail.engine->facts(), 1, 2, GetParam()), At(0)).ok());
  ASSERT_TRUE(head.machine.Receive(kBridge, Chunk(0, 0, 8, true), At(1)).ok());
  head.Run(At(1));
  std::vector<v1::Frame> frames = head.TakeFrames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].tensors(0).codec(), GetParam());
  EXPECT_EQ(TensorBytes(frames[0]), PackedBytes(v1::DTYPE_F32, GetParam(), 8, kWide));
  ASSERT_TRUE(tail.machine.Receive(kBridge, std::move(frames[0]), At(2)).ok());
  tail.Run(At(2));
  EXPECT_EQ(tail.TakeEdgeMessages(v1::EdgeMessage::kToken).size(), 1u);
  EXPECT_EQ(tail.TakeFailure(), "");
}

TEST_P(PackedSeams, AFrameInAnotherCodecThanAgreedFailsItsSession) {
  int refused = 0;
  for (const v1::Codec other : {v1::CODEC_RAW, v1::CODEC_BF16, v1::CODEC_Q8_0}) {
    if (other == GetParam()) continue;
    TestStage tail(LoadWide({4, 8}, kWide));
    ASSERT_TRUE(tail.machine.Open(PackedSpec(tail.engine->facts(), 1, 2, GetParam()), At(0)).ok());
    const std::vector<float> values(8 * kWide, 7.0f);
    ASSERT_TRUE(tail.machine.Receive(kBridge, RowsFrame(other, values, 8), At(1)).ok());
    EXPECT_EQ(tail.TakeFailure(), "wrong_dtype");
    ++refused;
  }
  EXPECT_EQ(refused, 2);
}

TEST_P(PackedSeams, TruncatedRowsAndRowsThatAreNotFiniteFailTheirSession) {
  const std::vector<float> values(8 * kWide, 7.0f);
  const auto failure_of = [&values](const std::function<void(std::string*)>& spoil) {
    TestStage tail(LoadWide({4, 8}, kWide));
    EXPECT_TRUE(tail.machine.Open(PackedSpec(tail.engine->facts(), 1, 2, GetParam()), At(0)).ok());
    v1::Frame frame = RowsFrame(GetParam(), values, 8);
    spoil(frame.mutable_tensors(0)->mutable_data());
    EXPECT_TRUE(tail.machine.Receive(kBridge, std::move(frame), At(1)).ok());
    return tail.TakeFailure();
  };
  EXPECT_EQ(failure_of([](std::string* data) { data->pop_back(); }), "wrong_size");
  // The exponent's bits: of the last f32 and the last bf16, of the first block's scale.
  const std::size_t at = GetParam() == v1::CODEC_Q8_0 ? 1 : values.size() * (GetParam() == v1::CODEC_RAW ? 4 : 2) - 1;
  EXPECT_EQ(failure_of([at](std::string* data) {
              (*data)[at] = '\x7f';
              (*data)[at - 1] = '\xff';
            }),
            "not_finite");
}

TEST_P(PackedSeams, AChunkTooLargeForOneMessageIsCutAndJoined) {
  constexpr std::uint32_t kRows = 300;
  const std::vector<float> values(kRows * kWide, 9.0f);
  v1::Frame frame = RowsFrame(GetParam(), values, kRows);
  const std::string data = frame.tensors(0).data();
  std::vector<v1::Frame> parts;
  ASSERT_TRUE(FragmentFrame(std::move(frame), &parts, 4096).ok());
  ASSERT_GT(parts.size(), 1u);
  FrameAssembler assembler;
  v1::Frame whole;
  bool is_complete = false;
  for (v1::Frame& part : parts) {
    EXPECT_TRUE(CheckFrame(part).ok());
    ASSERT_TRUE(assembler.Add(std::move(part), kMaxTensorBytes, &whole, &is_complete).ok());
  }
  ASSERT_TRUE(is_complete);
  EXPECT_TRUE(CheckFrame(whole).ok());
  EXPECT_EQ(whole.tensors(0).data(), data);
}

INSTANTIATE_TEST_SUITE_P(Codecs, PackedSeams, testing::Values(v1::CODEC_RAW, v1::CODEC_BF16, v1::CODEC_Q8_0));

Code OpenCode(const v1::SessionSpec& spec, const std::unique_ptr<ShardEngine>& engine) {
  const Result<SessionTerms> terms = ParseSessionTerms(spec, engine->facts());
  return terms.ok() ? Code::kOk : terms.status().code();
}

TEST(SeamTermsTest, ACodecThatIsNotSpokenIsRefusedAtOpen) {
  const std::unique_ptr<ShardEngine> head = LoadWide({0, 4}, kWide);
  EXPECT_EQ(OpenCode(PackedSpec(head->facts(), 0, 2, v1::CODEC_Q8_0), head), Code::kOk);
  EXPECT_EQ(OpenCode(PackedSpec(head->facts(), 0, 2, static_cast<v1::Codec>(17)), head), Code::kContractMismatch);
  const std::unique_ptr<ShardEngine> odd = LoadWide({0, 4}, 48);
  EXPECT_EQ(OpenCode(PackedSpec(odd->facts(), 0, 2, v1::CODEC_Q8_0), odd), Code::kContractMismatch);
  EXPECT_EQ(OpenCode(PackedSpec(odd->facts(), 0, 2, v1::CODEC_BF16), odd), Code::kOk);
}

TEST(SeamTermsTest, AnExactRouteTakesRawRowsAlone) {
  for (const std::uint32_t stage : {0u, 1u}) {
    const std::unique_ptr<ShardEngine> engine = LoadWide(stage == 0 ? LayerSpan{0, 4} : LayerSpan{4, 8}, kWide);
    for (const v1::Codec codec : {v1::CODEC_RAW, v1::CODEC_BF16, v1::CODEC_Q8_0}) {
      v1::SessionSpec spec = PackedSpec(engine->facts(), stage, 2, codec);
      EXPECT_EQ(OpenCode(spec, engine), Code::kOk);
      spec.set_exact(true);
      EXPECT_EQ(OpenCode(spec, engine), codec == v1::CODEC_RAW ? Code::kOk : Code::kContractMismatch);
    }
  }
}

TEST(SeamTermsTest, EdgesWithoutRowsCarryNoCodec) {
  int refused = 0;
  for (const std::uint32_t stage : {0u, 1u}) {
    const std::unique_ptr<ShardEngine> engine = LoadWide(stage == 0 ? LayerSpan{0, 4} : LayerSpan{4, 8}, kWide);
    const v1::SessionSpec whole = SpecFor(engine->facts(), stage, 2);
    for (int i = 0; i < whole.edges_size(); ++i) {
      if (whole.edges(i).from_stage() == 0 && whole.edges(i).to_stage() == 1) continue;
      v1::SessionSpec spec = whole;
      spec.mutable_edges(i)->set_codec(v1::CODEC_BF16);
      EXPECT_EQ(OpenCode(spec, engine), Code::kMalformed);
      ++refused;
    }
  }
  EXPECT_EQ(refused, 4);
}

TEST(SeamTermsTest, TwoSeamsOfOneStageMayDiffer) {
  TestStage middle(LoadWide({2, 6}, kWide));
  v1::SessionSpec spec = SpecFor(middle.engine->facts(), 1, 3);
  for (v1::EdgeSpec& edge : *spec.mutable_edges()) {
    edge.set_codec(edge.to_stage() == 1 ? v1::CODEC_BF16 : v1::CODEC_Q8_0);
  }
  ASSERT_TRUE(middle.machine.Open(spec, At(0)).ok());
  const std::vector<float> values(8 * kWide, 11.0f);
  ASSERT_TRUE(middle.machine.Receive(kBridge, RowsFrame(v1::CODEC_BF16, values, 8), At(1)).ok());
  middle.Run(At(1));
  const std::vector<v1::Frame> frames = middle.TakeFrames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].tensors(0).codec(), v1::CODEC_Q8_0);
}

TEST(SeamTermsTest, AWindowIsMeasuredInPackedBytes) {
  const std::unique_ptr<ShardEngine> tail = LoadWide({4, 8}, kWide);
  for (const v1::Codec codec : {v1::CODEC_RAW, v1::CODEC_BF16, v1::CODEC_Q8_0}) {
    v1::SessionSpec spec = PackedSpec(tail->facts(), 1, 2, codec);
    const std::uint64_t row_bytes = PackedBytes(v1::DTYPE_F32, codec, 1, kWide);
    spec.mutable_edges(0)->set_window_bytes(row_bytes);
    EXPECT_EQ(OpenCode(spec, tail), Code::kOk);
    spec.mutable_edges(0)->set_window_bytes(row_bytes - 1);
    EXPECT_EQ(OpenCode(spec, tail), Code::kMalformed);
  }
}

}  // namespace
}  // namespace meshnet
