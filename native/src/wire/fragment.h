// Cuts a frame that is too large for one message into parts and joins them again; cuts rows off a frame.
#ifndef MESHNET_WIRE_FRAGMENT_H_
#define MESHNET_WIRE_FRAGMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "meshnet/v1/frame.pb.h"
#include "wire/protocol_limits.h"
#include "wire/status.h"

namespace meshnet {

// Cuts a frame into parts of at most `limit_bytes` each and appends them to `parts`. A frame that is not larger than
// `limit_bytes` is moved there unchanged. kMessageTooLarge if a frame that must be cut does not have exactly one tensor
// or needs more than kMaxFragments parts.
Status FragmentFrame(v1::Frame&& frame, std::vector<v1::Frame>* parts,
                     std::size_t limit_bytes = kMaxMessageBytes - kEnvelopeReserveBytes);

// Cuts the first `rows` rows off a prompt frame, which must have more rows and not be a part, and returns them as a
// frame with the same seq. The rewind flag goes with the returned frame. The mark of the prompt's end, the logits rows
// and the residence times stay with the other rows in `frame`.
v1::Frame TakeRows(std::uint32_t rows, v1::Frame* frame);

// Joins the parts of the frames that arrive on one edge, one frame at a time. Not thread-safe; owned by the edge.
class FrameAssembler {
 public:
  // Adds the next part. With the last part, moves the whole frame into `whole` and sets *complete to true, otherwise to
  // false. kSequenceGap if a part is out of order; kMalformed if its header differs from that of the first part, or its
  // data does not begin where the part before ended; kMessageTooLarge if the frame has more than `limit_bytes` of
  // tensor data.
  Status Add(v1::Frame&& part, std::uint64_t limit_bytes, v1::Frame* whole, bool* complete);

  bool assembling() const { return next_index_ > 0; }
  std::uint32_t next_index() const { return next_index_; }
  std::uint64_t held_bytes() const { return data_.size(); }

 private:
  v1::Frame header_;  // fields that all parts share, without data
  std::string data_;
  std::uint32_t next_index_ = 0;
};

}  // namespace meshnet

#endif  // MESHNET_WIRE_FRAGMENT_H_
