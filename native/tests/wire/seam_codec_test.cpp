// Packed rows against the vectors that Python reads too, and their sizes and refusals.
#include "wire/seam_codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "vectors.h"
#include "wire/digest.h"
#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

using Json = nlohmann::json;

v1::Codec CodecOf(const Json& vector) {
  v1::Codec codec = v1::CODEC_UNSPECIFIED;
  EXPECT_TRUE(v1::Codec_Parse("CODEC_" + vector.at("codec").get<std::string>(), &codec));
  return codec;
}

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string Hex(const std::vector<float>& values) {
  return ToHex(std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

v1::Tensor PackedTensor(const Json& vector) {
  v1::Tensor tensor;
  tensor.set_codec(CodecOf(vector));
  tensor.set_data(FromHex(vector.at("packed")));
  return tensor;
}

std::size_t Elements(const v1::Tensor& tensor) {
  return tensor.codec() == v1::CODEC_BF16 ? tensor.data().size() / 2
                                          : tensor.data().size() / kQ80BlockBytes * kQ80BlockElements;
}

TEST(SeamCodecVectorsTest, GoodRowsPackAndUnpackToTheseBytes) {
  const Json vectors = LoadVectors("seam_codecs.json").at("good");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const std::vector<float> rows = Floats(FromHex(vector.at("raw")));
    v1::Tensor tensor;
    ASSERT_TRUE(PackRows(CodecOf(vector), "hidden", 1, rows, &tensor).ok());
    EXPECT_EQ(ToHex(tensor.data()), vector.at("packed").get<std::string>());
    EXPECT_TRUE(IsFinite(tensor));
    std::vector<float> unpacked(rows.size());
    UnpackRows(tensor, unpacked);
    EXPECT_EQ(Hex(unpacked), vector.at("unpacked").get<std::string>());
  }
}

TEST(SeamCodecVectorsTest, WhatNoSenderMakesIsUnderstood) {
  const Json vectors = LoadVectors("seam_codecs.json").at("odd_packed");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const v1::Tensor tensor = PackedTensor(vector);
    EXPECT_TRUE(IsFinite(tensor));
    std::vector<float> unpacked(Elements(tensor));
    UnpackRows(tensor, unpacked);
    EXPECT_EQ(Hex(unpacked), vector.at("unpacked").get<std::string>());
  }
}

TEST(SeamCodecVectorsTest, RowsThatCannotBeHeldAreRefused) {
  const Json vectors = LoadVectors("seam_codecs.json").at("refused_rows");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    v1::Tensor tensor;
    const Status status = PackRows(CodecOf(vector), "hidden", 1, Floats(FromHex(vector.at("raw"))), &tensor);
    EXPECT_EQ(status.code(), Code::kNotFinite);
  }
}

TEST(SeamCodecVectorsTest, PackedRowsThatAreNotFiniteAreFound) {
  const Json vectors = LoadVectors("seam_codecs.json").at("refused_packed");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    EXPECT_FALSE(IsFinite(PackedTensor(vector)));
  }
}

TEST(SeamCodecTest, APackedTensorPassesTheChecksOfAFrame) {
  const std::vector<float> values(3 * 64, 1.25f);
  for (const v1::Codec codec : {v1::CODEC_RAW, v1::CODEC_BF16, v1::CODEC_Q8_0}) {
    v1::Frame frame;
    frame.set_rows(3);
    frame.set_phase(v1::PHASE_PREFILL);
    ASSERT_TRUE(PackRows(codec, "hidden", 3, values, frame.add_tensors()).ok());
    EXPECT_TRUE(CheckFrame(frame).ok());
    EXPECT_EQ(TensorBytes(frame), PackedBytes(v1::DTYPE_F32, codec, 3, 64));
    frame.mutable_tensors(0)->mutable_data()->pop_back();
    EXPECT_EQ(CheckFrame(frame).code(), Code::kWrongSize);
  }
}

TEST(SeamCodecTest, OnlyWholeBlocksArePackedAsQ80) {
  EXPECT_TRUE(CanPack(v1::CODEC_Q8_0, 576));
  EXPECT_FALSE(CanPack(v1::CODEC_Q8_0, 16));
  EXPECT_TRUE(CanPack(v1::CODEC_BF16, 33));
  EXPECT_FALSE(CanPack(static_cast<v1::Codec>(17), 64));
}

TEST(SeamCodecTest, AContractListsWhatItsWidthsAllow) {
  const auto listed = [](std::initializer_list<std::uint32_t> inputs, std::initializer_list<std::uint32_t> outputs) {
    v1::BoundaryContract contract;
    for (const std::uint32_t width : inputs) contract.add_inputs()->set_elements_per_row(width);
    for (const std::uint32_t width : outputs) contract.add_outputs()->set_elements_per_row(width);
    AddCodecs(&contract);
    return std::vector<int>(contract.codecs().begin(), contract.codecs().end());
  };
  EXPECT_EQ(listed({}, {576}), (std::vector<int>{v1::CODEC_BF16, v1::CODEC_Q8_0}));
  EXPECT_EQ(listed({16}, {576}), std::vector<int>{v1::CODEC_BF16});
  EXPECT_TRUE(listed({}, {}).empty());
}

}  // namespace
}  // namespace meshnet
