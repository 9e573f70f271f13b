// Packs and unpacks the hidden rows that cross a seam, as raw f32, bf16 or q8_0.
//
// Invariants: rows that would not be finite once unpacked are refused. Equal rows give equal bytes on every machine;
// tests/vectors/seam_codecs.json has examples that C++ and Python are tested with. bf16 is f32 rounded to nearest, ties
// to even. q8_0 is ggml's block: an f16 scale and 32 signed bytes for 32 elements of one row. All functions are pure
// and may be called from any thread; none allocates memory except for the tensor's data. Source: docs/wire.md, Codecs.
#ifndef MESHNET_WIRE_SEAM_CODEC_H_
#define MESHNET_WIRE_SEAM_CODEC_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "meshnet/v1/frame.pb.h"
#include "meshnet/v1/session.pb.h"
#include "wire/status.h"

namespace meshnet {

// Whether `codec` can pack rows of this width: q8_0 packs only whole blocks of 32 elements, the others any width.
bool CanPack(v1::Codec codec, std::uint32_t elements_per_row);

// Adds to the contract the codecs, other than raw, that can pack its inputs and outputs.
void AddCodecs(v1::BoundaryContract* contract);

// Packs `values`, which are `rows` rows of f32 of equal width, into the empty `tensor` with `codec`. CanPack must hold
// for the width. kNotFinite if a value is not finite, or the codec cannot hold it: it is beyond bf16's largest value,
// or the scale of its q8_0 block is beyond f16's.
Status PackRows(v1::Codec codec, std::string_view name, std::uint32_t rows, std::span<const float> values,
                v1::Tensor* tensor);

// Whether every element of a tensor of f32 rows is finite once unpacked. Call only after CheckFrame.
bool IsFinite(const v1::Tensor& tensor);

// Unpacks a tensor of f32 rows into `values`, which must have as many elements as the tensor. Call only after
// CheckFrame.
void UnpackRows(const v1::Tensor& tensor, std::span<float> values);

}  // namespace meshnet

#endif  // MESHNET_WIRE_SEAM_CODEC_H_
