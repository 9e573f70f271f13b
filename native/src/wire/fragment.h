// Cuts frames that are too large for one message into parts, cuts off rows of a frame, and joins parts again.
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

// Cuts a whole frame into parts of at most `limit_bytes` each and appends them to `parts`; if the frame fits, it is
// moved there unchanged. kMessageTooLarge if a frame to be cut has not exactly one tensor or needs more than
// kMaxFragments parts.
Status FragmentFrame(v1::Frame&& frame, std::vector<v1::Frame>* parts,
                     std::size_t limit_bytes = kMaxMessageBytes - kEnvelopeReserveBytes);

// Cuts the first `rows` rows off a whole prompt frame, which has more, and returns them as a frame with the same seq. A
// rewind goes with the first rows; the prompt's end and its logits stay with the rest in `frame`.
v1::Frame TakeRows(std::uint32_t rows, v1::Frame* frame);

// Joins the parts of one frame, in order. Not thread-safe; owned by one edge.
class FrameAssembler {
 public:
  // Takes the next part. With the last part, moves the whole frame into `whole` and sets *complete. kSequenceGap if a
  // part is out of order, kMalformed if it contradicts the first, kMessageTooLarge if the parts hold more than
  // `limit_bytes` of tensor data.
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
