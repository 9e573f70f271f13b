// Turns untrusted bytes into checked frames, and rows into tensors and back.
//
// Invariants: the size is checked before parsing, the address before all other fields, and every number before use. The
// checks and their codes are those of `meshnet.frame` in Python; tests/vectors/ tests both with the same bytes. All
// functions are pure and may be called from any thread.
#ifndef MESHNET_WIRE_TENSOR_CODEC_H_
#define MESHNET_WIRE_TENSOR_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "meshnet/v1/frame.pb.h"
#include "meshnet/v1/session.pb.h"
#include "wire/protocol_limits.h"
#include "wire/status.h"

namespace meshnet {

// Bytes of one element; 0 for an unknown type.
std::size_t DTypeBytes(v1::DType dtype);

// Bytes of rows x elements once packed; 0 if the codec cannot pack that type or shape.
std::uint64_t PackedBytes(v1::DType dtype, v1::Codec codec, std::uint32_t rows, std::uint32_t elements_per_row);

// Bytes of tensor data in a frame, which count against a window.
std::uint64_t TensorBytes(const v1::Frame& frame);

// Parses one frame and checks it with CheckAddress and CheckFrame.
Result<v1::Frame> ParseFrame(std::string_view bytes, std::size_t limit_bytes = kMaxMessageBytes);

// Whether session, epoch and stages are valid at all. If not, the connection is closed.
Status CheckAddress(const std::string& session, std::uint32_t epoch, std::uint32_t from_stage, std::uint32_t to_stage);

// Whether a frame's fields agree with each other; its address was checked before. If not, its session fails.
Status CheckFrame(const v1::Frame& frame);

// Checks residence: at most one entry for each stage, and no entry for the Gateway.
Status CheckResidence(const google::protobuf::RepeatedPtrField<v1::StageResidence>& residence);

// Canonical bytes: fields in order of their numbers, defaults left out.
std::string SerialiseFrame(const v1::Frame& frame);

// Whether every element of raw little-endian f32 data is finite. data.size() is a multiple of 4.
bool AllFinite(std::string_view data);
bool AllFinite(std::span<const float> values);

// Adds a raw f32 tensor of shape [rows, values.size() / rows] to a frame.
void AddTensor(std::string_view name, std::uint32_t rows, std::span<const float> values, v1::Frame* frame);

// Copies raw f32 rows; `values` must have the size that CheckFrame and the contract have checked.
void CopyTensor(const v1::Tensor& tensor, std::span<float> values);

}  // namespace meshnet

#endif  // MESHNET_WIRE_TENSOR_CODEC_H_
