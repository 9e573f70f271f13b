// The receiving and the sending end of one edge of one session, without I/O. They number frames, keep to the window,
// drop repeated frames, join the parts of a frame, and keep track of acknowledgements. Not thread-safe: owned by a
// Session, which StageWorker's lock guards. Source: docs/wire.md, Frames and Credits; the Python package
// `meshnet.session` does the same.
#ifndef MESHNET_SESSION_EDGE_H_
#define MESHNET_SESSION_EDGE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "meshnet/v1/frame.pb.h"
#include "wire/fragment.h"
#include "wire/status.h"
#include "wire/tensor_codec.h"

namespace meshnet {

using TimePoint = std::chrono::steady_clock::time_point;

// Largest number of frames and bytes that may be in flight on an edge without an acknowledgement.
struct Window {
  std::uint32_t frames = 0;
  std::uint64_t tensor_bytes = 0;
};

class ReceivingEdge {
 public:
  enum class Arrival { kDelivered, kKept, kRepeated, kFailed };

  explicit ReceivingEdge(Window window) : window_(window) {}

  // Takes the next frame or part from the carrier; the caller has checked it with CheckFrame. Returns kDelivered if a
  // frame is complete, and moves it into `whole`; kKept if more parts must follow; kRepeated if the frame or part was
  // received before; kFailed if the session must end, and sets `failure` to kSequenceGap,
  // kMessageTooLarge, kWindowExceeded or kMalformed.
  Arrival Receive(v1::Frame&& frame, v1::Frame* whole, Status* failure);

  // Frees the window's space of all delivered frames up to `seq`, since the engine has computed them.
  void Consume(std::uint64_t seq);

  // Seq of the last frame that the engine has computed, which acknowledgements carry; empty before the first one.
  std::optional<std::uint64_t> consumed_seq() const { return consumed_seq_; }

  // Tensor bytes of the frames that were delivered and are not consumed, and of the parts of an incomplete frame.
  std::uint64_t held_bytes() const { return unconsumed_bytes_ + assembler_.held_bytes(); }

 private:
  Status CheckWindow(const v1::Frame& frame) const;

  const Window window_;
  FrameAssembler assembler_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> unconsumed_;  // seq and tensor bytes of each frame
  std::uint64_t unconsumed_bytes_ = 0;
  std::uint64_t next_seq_ = 0;
  std::optional<std::uint64_t> consumed_seq_;
};

class SendingEdge {
 public:
  explicit SendingEdge(Window window) : window_(window) {}

  // Whether a whole frame of this size is within the window's bytes, so that it can be sent sooner or later.
  bool Fits(std::uint64_t tensor_bytes) const { return tensor_bytes <= window_.tensor_bytes; }

  // Whether the window has room now for a frame of this size beside the frames in flight.
  bool HasCredit(std::uint64_t tensor_bytes) const;

  // Counts one whole frame, with all its parts, as in flight and returns its seq. Call only if HasCredit.
  std::uint64_t Send(std::uint64_t tensor_bytes, TimePoint now);

  // Removes all frames up to `seq` from those in flight; a repeated acknowledgement changes nothing. kMalformed if
  // `seq` was never sent.
  Status Acknowledge(std::uint64_t seq, TimePoint now);

  // Since when the frames in flight have waited for an acknowledgement (progress_at); empty if none is in flight.
  std::optional<TimePoint> waiting_since() const;

  // The later of two times: of the last acknowledgement of a frame in flight, and of the last frame that was sent while
  // no other was in flight.
  TimePoint progress_at() const { return progress_at_; }

 private:
  const Window window_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> in_flight_;  // seq and tensor bytes of each frame
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t next_seq_ = 0;
  TimePoint progress_at_;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_EDGE_H_
