// The packings of hidden rows between two stages: raw f32, bf16 and q8_0.
//
// Invariants: what is packed is finite once unpacked, or refused; equal rows give equal bytes on every machine, the
// bytes that tests/vectors/seam_codecs.json holds both languages to. bf16 is f32 rounded to nearest, ties to even.
// q8_0 is ggml's block: an f16 scale and 32 signed bytes for 32 elements of one row.
// All functions are pure and may be called from any thread; none allocates but for the tensor's own data.
// Source: docs/wire.md, Codecs.
#ifndef MESHNET_WIRE_SEAM_CODEC_H_
#define MESHNET_WIRE_SEAM_CODEC_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "meshnet/v1/frame.pb.h"
#include "meshnet/v1/session.pb.h"
#include "wire/status.h"

namespace meshnet {

// Whether rows of so many elements can be packed: q8_0 takes whole blocks.
bool CanPack(v1::Codec codec, std::uint32_t elements_per_row);

// Lists in the contract which codecs beside raw its inputs and outputs can be packed by.
void AddCodecs(v1::BoundaryContract* contract);

// Fills `tensor` with rows [rows, values.size() / rows] f32. CanPack holds. kNotFinite where a value is not finite, or
// not once it is packed: f32 beyond bf16's largest, a q8_0 block whose scale is beyond f16's.
Status PackRows(v1::Codec codec, std::string_view name, std::uint32_t rows, std::span<const float> values,
                v1::Tensor* tensor);

// Whether every element of a tensor of f32 rows is finite once unpacked. CheckFrame has passed the whole tensor.
bool IsFinite(const v1::Tensor& tensor);

// Unpacks f32 rows; `values` has the size that CheckFrame and the contract promised.
void UnpackRows(const v1::Tensor& tensor, std::span<float> values);

}  // namespace meshnet

#endif  // MESHNET_WIRE_SEAM_CODEC_H_
