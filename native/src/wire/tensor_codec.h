// Frames and edge messages: untrusted bytes to checked messages, and rows to and from tensors.
//
// Invariants: size is checked before parsing, the address before everything else, every number before use. The checks
// and their codes are those of `meshnet.frame` in Python; tests/vectors/ holds both to the same bytes.
// All functions are pure and may be called from any thread.
#ifndef MESHNET_WIRE_TENSOR_CODEC_H_
#define MESHNET_WIRE_TENSOR_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshnet/v1/frame.pb.h"
#include "meshnet/v1/session.pb.h"
#include "wire/protocol_limits.h"
#include "wire/status.h"

namespace meshnet {

// Bytes of one element; 0 for an unknown type.
std::size_t DTypeBytes(v1::DType dtype);

// Bytes that rows x elements take once packed; 0 where the codec cannot pack that type or shape.
std::uint64_t PackedBytes(v1::DType dtype, v1::Codec codec, std::uint32_t rows, std::uint32_t elements_per_row);

// Tensor bytes held by a frame: what a window counts.
std::uint64_t TensorBytes(const v1::Frame& frame);

// Reads and checks one frame: as CheckAddress and CheckFrame.
Result<v1::Frame> ParseFrame(std::string_view bytes, std::size_t limit_bytes = kMaxMessageBytes);

// Reads and checks one edge message.
Result<v1::EdgeMessage> ParseEdgeMessage(std::string_view bytes, std::size_t limit_bytes = kMaxMessageBytes);

// Whether session, epoch and stages are possible at all. A failure here closes the connection.
Status CheckAddress(const std::string& session, std::uint32_t epoch, std::uint32_t from_stage, std::uint32_t to_stage);

// Whether a frame's fields agree with each other; its address was checked before. A failure fails its session.
Status CheckFrame(const v1::Frame& frame);

// Residence: one entry a stage at most, real stages only.
Status CheckResidence(const google::protobuf::RepeatedPtrField<v1::StageResidence>& residence);

// As CheckFrame, for an edge message.
Status CheckEdgeMessage(const v1::EdgeMessage& message);

// Canonical bytes: fields in order of their numbers, defaults left out.
std::string SerialiseFrame(const v1::Frame& frame);

// Cuts a whole frame into parts of at most `limit_bytes` each and appends them to `parts`; one that fits is moved
// there as it is. kMessageTooLarge where it has not exactly one tensor or needs more than kMaxFragments parts.
Status FragmentFrame(v1::Frame&& frame, std::vector<v1::Frame>* parts,
                     std::size_t limit_bytes = kMaxMessageBytes - kEnvelopeReserveBytes);

// Takes the first `rows` rows of a whole prompt frame, fewer than it has, as a frame of their own with the same seq,
// and leaves it the rest: a rewind goes with the first, the prompt's end and its logits stay with the last.
v1::Frame TakeRows(std::uint32_t rows, v1::Frame* frame);

// Puts the parts of one frame together, in order. Not thread-safe; owned by one edge.
class FrameAssembler {
 public:
  // Takes the next part and moves the whole frame into `whole` with the last one (then *complete is true).
  // kSequenceGap for a part out of order, kMalformed for one that contradicts the first. At most `limit_bytes` of
  // tensor data is held: kMessageTooLarge beyond.
  Status Add(v1::Frame&& part, std::uint64_t limit_bytes, v1::Frame* whole, bool* complete);

  bool assembling() const { return next_index_ > 0; }
  std::uint32_t next_index() const { return next_index_; }
  std::uint64_t held_bytes() const { return data_.size(); }

 private:
  v1::Frame header_;  // of all parts, without data
  std::string data_;
  std::uint32_t next_index_ = 0;
};

// Whether every element of raw little-endian f32 data is finite. data.size() is a multiple of 4.
bool AllFinite(std::string_view data);
bool AllFinite(std::span<const float> values);

// Adds a raw f32 tensor of shape [rows, values.size() / rows] to a frame.
void AddTensor(std::string_view name, std::uint32_t rows, std::span<const float> values, v1::Frame* frame);

// Copies raw f32 rows; `values` has the size that CheckFrame and the contract promised.
void CopyTensor(const v1::Tensor& tensor, std::span<float> values);

}  // namespace meshnet

#endif  // MESHNET_WIRE_TENSOR_CODEC_H_
