// Cutting and joining of frames: parts of a frame that is too large for one message, and pieces of its rows.
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

}  // namespace meshnet

#endif  // MESHNET_WIRE_FRAGMENT_H_
