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

// Bytes that `rows` rows take once packed; 0 if the codec is unknown, or if it is raw and the type is unknown. Does
// not check that rows for bf16 and q8_0 are f32, nor that rows for q8_0 have whole blocks.
std::uint64_t PackedBytes(v1::DType dtype, v1::Codec codec, std::uint32_t rows, std::uint32_t elements_per_row);

// Bytes of tensor data in a frame. They count against the window of the frame's edge.
std::uint64_t TensorBytes(const v1::Frame& frame);

// Parses one frame of at most `limit_bytes` bytes and checks it with CheckAddress and CheckFrame.
Result<v1::Frame> ParseFrame(std::string_view bytes, std::size_t limit_bytes = kMaxMessageBytes);

// Checks that session, epoch and stages are in range, and that the stages differ (kMalformed). If not, the caller
// closes the connection.
Status CheckAddress(const std::string& session, std::uint32_t epoch, std::uint32_t from_stage, std::uint32_t to_stage);

// Checks that a frame's fields are in range and agree with each other. Call CheckAddress before. If the check fails,
// the caller fails the frame's session.
Status CheckFrame(const v1::Frame& frame);

// Checks the times for which stages kept a step's rows: each stage has at most one entry, the Gateway none.
Status CheckResidence(const google::protobuf::RepeatedPtrField<v1::StageResidence>& residence);

// The canonical bytes of a frame: its fields in the order of their numbers, without those that have default values.
std::string SerialiseFrame(const v1::Frame& frame);

// Whether every element of raw little-endian f32 data is finite. data.size() is a multiple of 4.
bool AllFinite(std::string_view data);
bool AllFinite(std::span<const float> values);

// Adds a raw f32 tensor of shape [rows, values.size() / rows] to a frame.
void AddTensor(std::string_view name, std::uint32_t rows, std::span<const float> values, v1::Frame* frame);

// Copies the rows of a raw f32 tensor into `values`, which must have as many elements as the tensor.
void CopyTensor(const v1::Tensor& tensor, std::span<float> values);

}  // namespace meshnet

#endif  // MESHNET_WIRE_TENSOR_CODEC_H_
