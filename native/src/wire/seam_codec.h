// Packs and unpacks the hidden rows between two stages: raw f32, bf16 and q8_0.
//
// Invariants: packed rows are finite once unpacked, or refused. Equal rows give equal bytes on every machine;
// tests/vectors/seam_codecs.json holds the bytes for both languages. bf16 is f32 rounded to nearest, ties to even. q8_0
// is ggml's block: an f16 scale and 32 signed bytes for 32 elements of one row. All functions are pure and may be
// called from any thread; none allocates memory except for the tensor's data. Source: docs/wire.md, Codecs.
#ifndef MESHNET_WIRE_SEAM_CODEC_H_
#define MESHNET_WIRE_SEAM_CODEC_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "meshnet/v1/frame.pb.h"
#include "meshnet/v1/session.pb.h"
#include "wire/status.h"

namespace meshnet {

// Whether rows of this width can be packed: q8_0 needs whole blocks.
bool CanPack(v1::Codec codec, std::uint32_t elements_per_row);

// Adds to the contract the codecs, other than raw, that can pack its inputs and outputs.
void AddCodecs(v1::BoundaryContract* contract);

// Fills `tensor` with f32 rows of shape [rows, values.size() / rows]. CanPack must hold. kNotFinite if a value is not
// finite before or after packing: f32 beyond bf16's largest, or a q8_0 block whose scale is beyond f16's.
Status PackRows(v1::Codec codec, std::string_view name, std::uint32_t rows, std::span<const float> values,
                v1::Tensor* tensor);

// Whether every element of a tensor of f32 rows is finite once unpacked. Call only after CheckFrame.
bool IsFinite(const v1::Tensor& tensor);

// Unpacks f32 rows; `values` must have the size that CheckFrame and the contract have checked.
void UnpackRows(const v1::Tensor& tensor, std::span<float> values);

}  // namespace meshnet

#endif  // MESHNET_WIRE_SEAM_CODEC_H_
