// Our packed rows are ggml's: its own readers and writers of bf16 and q8_0 take and give the same bytes.
#include <ggml.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "wire/protocol_limits.h"
#include "wire/seam_codec.h"

namespace meshnet {
namespace {

constexpr std::size_t kElements = 64 * kQ80BlockElements;

// Hidden rows: both signs, a few large values. No value lies half-way between two quants, where ggml's own kernels
// differ.
std::vector<float> Rows() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = normal(random) * (i % 97 == 0 ? 300.0f : 1.0f);
  return values;
}

class GgmlTypes : public testing::TestWithParam<std::pair<v1::Codec, ggml_type>> {};

TEST_P(GgmlTypes, ReadAndWriteTheSameBytes) {
  const auto [codec, type] = GetParam();
  const ggml_type_traits* traits = ggml_get_type_traits(type);
  const std::vector<float> values = Rows();
  v1::Tensor tensor;
  ASSERT_TRUE(PackRows(codec, "hidden", 1, values, &tensor).ok());
  ASSERT_EQ(tensor.data().size(), ggml_row_size(type, static_cast<std::int64_t>(values.size())));

  std::string theirs(tensor.data().size(), '\0');
  traits->from_float_ref(values.data(), theirs.data(), static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(tensor.data(), theirs);

  std::vector<float> ours_read(values.size());
  std::vector<float> theirs_read(values.size());
  UnpackRows(tensor, ours_read);
  traits->to_float(tensor.data().data(), theirs_read.data(), static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(std::memcmp(ours_read.data(), theirs_read.data(), values.size() * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Codecs, GgmlTypes,
                         testing::Values(std::pair{v1::CODEC_BF16, GGML_TYPE_BF16},
                                         std::pair{v1::CODEC_Q8_0, GGML_TYPE_Q8_0}));

}  // namespace
}  // namespace meshnet
