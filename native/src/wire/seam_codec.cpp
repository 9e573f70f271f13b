#include "wire/seam_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "wire/protocol_limits.h"
#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

static_assert(kQ80BlockBytes == sizeof(std::uint16_t) + kQ80BlockElements);

constexpr std::uint32_t kF32Magnitude = 0x7fffffffu;
constexpr std::uint32_t kF32Exponent = 0x7f800000u;
constexpr std::uint16_t kBf16Exponent = 0x7f80u;
constexpr std::uint16_t kF16Exponent = 0x7c00u;
constexpr std::uint16_t kF16Mantissa = 0x03ffu;
constexpr std::uint16_t kF16Magnitude = 0x7fffu;

// Reads one element. memcpy is used because tensor data may not be aligned; compilers turn the loops into vector code.
template <typename Element>
Element Load(const char* data, std::size_t index) {
  Element element;
  std::memcpy(&element, data + index * sizeof(Element), sizeof(Element));
  return element;
}

template <typename Element>
void Store(Element element, char* data, std::size_t index) {
  std::memcpy(data + index * sizeof(Element), &element, sizeof(Element));
}

// Returns whether all values are finite once packed. These loops have no early exit: finite data is the normal case.
bool PackBf16(std::span<const float> values, char* data) {
  std::uint32_t poisoned = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    // Rounding may carry a NaN into the sign, so the input is checked as well.
    poisoned |= static_cast<std::uint32_t>((bits & kF32Exponent) == kF32Exponent) |
                static_cast<std::uint32_t>((rounded & kBf16Exponent) == kBf16Exponent);
    Store(static_cast<std::uint16_t>(rounded), data, i);
  }
  return poisoned == 0;
}

bool IsFiniteBf16(std::string_view data) {
  std::uint32_t poisoned = 0;
  for (std::size_t i = 0; i < data.size() / sizeof(std::uint16_t); ++i) {
    const auto bits = Load<std::uint16_t>(data.data(), i);
    poisoned |= static_cast<std::uint32_t>((bits & kBf16Exponent) == kBf16Exponent);
  }
  return poisoned == 0;
}

void UnpackBf16(std::string_view data, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(std::uint32_t{Load<std::uint16_t>(data.data(), i)} << 16);
  }
}

// Rounds a magnitude to f16, ties to even; infinity if it is beyond f16's largest, infinite or NaN.
std::uint16_t ToF16(float magnitude) {
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  if (bits >= std::bit_cast<std::uint32_t>(65536.0f)) return kF16Exponent;
  if (bits < std::bit_cast<std::uint32_t>(0x1p-14f)) {
    // The f16 is subnormal. Its values are as far apart as those of f32 just above 0.5, so adding 0.5 rounds to them.
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(magnitude + 0.5f) -
                                      std::bit_cast<std::uint32_t>(0.5f));
  }
  const std::uint32_t rounded = bits + 0xfffu + ((bits >> 13) & 1u);
  return static_cast<std::uint16_t>((rounded - (112u << 23)) >> 13);  // the biases of the exponents differ by 112
}

// Converts a finite f16.
float FromF16(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t magnitude = half & kF16Magnitude;
  const float value = magnitude > kF16Mantissa ? std::bit_cast<float>((magnitude << 13) + (112u << 23))
                                               : static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

// The integer nearest to a value of magnitude below 2^22, ties to even: the sum's last mantissa bit is worth 1.
std::int32_t Nearest(float value) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(value + kShift)) -
         static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(kShift));
}

// Returns whether the block is finite once unpacked.
bool PackQ80Block(const float* values, char* block) {
  // As integers, the bits of magnitudes have the order of the floats, and infinity and NaN are above all finite ones.
  std::int32_t largest = 0;
  for (std::uint32_t i = 0; i < kQ80BlockElements; ++i) {
    largest = std::max(largest, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(values[i]) & kF32Magnitude));
  }
  const float scale = std::bit_cast<float>(largest) / 127.0f;
  const std::uint16_t half = ToF16(scale);
  if (half == kF16Exponent) return false;
  // If a scale rounds to 0, the block is all zeros; the reciprocal could be infinite.
  const float inverse = half == 0 ? 0.0f : 1.0f / scale;
  Store(half, block, 0);
  std::array<std::int8_t, kQ80BlockElements> quants;
  for (std::uint32_t i = 0; i < kQ80BlockElements; ++i) {
    quants[i] = static_cast<std::int8_t>(Nearest(values[i] * inverse));
  }
  std::memcpy(block + sizeof(half), quants.data(), quants.size());
  return true;
}

bool PackQ80(std::span<const float> values, char* data) {
  bool is_finite = true;
  for (std::size_t block = 0; block < values.size() / kQ80BlockElements; ++block) {
    is_finite &= PackQ80Block(values.data() + block * kQ80BlockElements, data + block * kQ80BlockBytes);
  }
  return is_finite;
}

bool IsFiniteQ80(std::string_view data) {
  std::uint32_t poisoned = 0;
  for (std::size_t offset = 0; offset + kQ80BlockBytes <= data.size(); offset += kQ80BlockBytes) {
    const auto half = Load<std::uint16_t>(data.data() + offset, 0);
    poisoned |= static_cast<std::uint32_t>((half & kF16Exponent) == kF16Exponent);
  }
  return poisoned == 0;
}

void UnpackQ80(std::string_view data, std::span<float> values) {
  for (std::size_t block = 0; block < values.size() / kQ80BlockElements; ++block) {
    const char* const bytes = data.data() + block * kQ80BlockBytes;
    const float scale = FromF16(Load<std::uint16_t>(bytes, 0));
    std::array<std::int8_t, kQ80BlockElements> quants;
    std::memcpy(quants.data(), bytes + sizeof(std::uint16_t), quants.size());
    float* const row = values.data() + block * kQ80BlockElements;
    for (std::uint32_t i = 0; i < kQ80BlockElements; ++i) row[i] = scale * static_cast<float>(quants[i]);
  }
}

// Returns whether all values are finite once packed.
bool Pack(v1::Codec codec, std::span<const float> values, char* data) {
  switch (codec) {
    case v1::CODEC_BF16:
      return PackBf16(values, data);
    case v1::CODEC_Q8_0:
      return PackQ80(values, data);
    default:
      std::memcpy(data, values.data(), values.size_bytes());
      return AllFinite(values);
  }
}

}  // namespace

bool CanPack(v1::Codec codec, std::uint32_t elements_per_row) {
  switch (codec) {
    case v1::CODEC_RAW:
    case v1::CODEC_BF16:
      return true;
    case v1::CODEC_Q8_0:
      return elements_per_row % kQ80BlockElements == 0;
    default:
      return false;
  }
}

void AddCodecs(v1::BoundaryContract* contract) {
  if (contract->inputs().empty() && contract->outputs().empty()) return;
  for (const v1::Codec codec : {v1::CODEC_BF16, v1::CODEC_Q8_0}) {
    const auto fits = [codec](const v1::TensorSpec& spec) { return CanPack(codec, spec.elements_per_row()); };
    if (std::all_of(contract->inputs().begin(), contract->inputs().end(), fits) &&
        std::all_of(contract->outputs().begin(), contract->outputs().end(), fits)) {
      contract->add_codecs(codec);
    }
  }
}

Status PackRows(v1::Codec codec, std::string_view name, std::uint32_t rows, std::span<const float> values,
                v1::Tensor* tensor) {
  const auto elements_per_row = static_cast<std::uint32_t>(values.size() / rows);
  tensor->set_name(name.data(), name.size());
  tensor->set_dtype(v1::DTYPE_F32);
  tensor->add_shape(rows);
  tensor->add_shape(elements_per_row);
  tensor->set_codec(codec);
  tensor->mutable_data()->resize(PackedBytes(v1::DTYPE_F32, codec, rows, elements_per_row));
  if (Pack(codec, values, tensor->mutable_data()->data())) return Status::Ok();
  return {Code::kNotFinite, "the seam's codec cannot hold a row's values"};
}

bool IsFinite(const v1::Tensor& tensor) {
  switch (tensor.codec()) {
    case v1::CODEC_BF16:
      return IsFiniteBf16(tensor.data());
    case v1::CODEC_Q8_0:
      return IsFiniteQ80(tensor.data());
    default:
      return AllFinite(tensor.data());
  }
}

void UnpackRows(const v1::Tensor& tensor, std::span<float> values) {
  switch (tensor.codec()) {
    case v1::CODEC_BF16:
      UnpackBf16(tensor.data(), values);
      return;
    case v1::CODEC_Q8_0:
      UnpackQ80(tensor.data(), values);
      return;
    default:
      CopyTensor(tensor, values);
  }
}

}  // namespace meshnet
