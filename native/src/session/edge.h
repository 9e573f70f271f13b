// The two ends of one edge of one session, without I/O: numbering, windows, repeats, assembly, acknowledgements.
// Not thread-safe: owned by a Session, which is guarded by its machine's owner.
// Source: docs/wire.md, Frames and Credits; `meshnet.session` is the same machine in Python.
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

  // Takes the next frame or part from the carrier; the caller has checked it with CheckFrame. If kDelivered, the whole
  // frame is moved into `whole`. If kFailed, `failure` is set (kSequenceGap, kMessageTooLarge, kWindowExceeded,
  // kMalformed) and the session is over.
  Arrival Receive(v1::Frame&& frame, v1::Frame* whole, Status* failure);

  // The engine has consumed all delivered frames up to `seq`. Frees their place in the window.
  void Consume(std::uint64_t seq);

  // Last consumed seq, to acknowledge (again); none before the first frame was consumed.
  std::optional<std::uint64_t> consumed_seq() const { return consumed_seq_; }

  // Tensor bytes delivered and not consumed, or in assembly.
  std::uint64_t held_bytes() const { return unconsumed_bytes_ + assembler_.held_bytes(); }

 private:
  Status CheckWindow(const v1::Frame& frame) const;

  const Window window_;
  FrameAssembler assembler_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> unconsumed_;  // (seq, tensor bytes)
  std::uint64_t unconsumed_bytes_ = 0;
  std::uint64_t next_seq_ = 0;
  std::optional<std::uint64_t> consumed_seq_;
};

class SendingEdge {
 public:
  explicit SendingEdge(Window window) : window_(window) {}

  // Whether a whole frame of this size could ever be sent.
  bool Fits(std::uint64_t tensor_bytes) const { return tensor_bytes <= window_.tensor_bytes; }

  // Whether a frame of this size may be sent now.
  bool HasCredit(std::uint64_t tensor_bytes) const;

  // Takes the credit for one whole frame (all its parts) and returns its seq. Call only if HasCredit.
  std::uint64_t Send(std::uint64_t tensor_bytes, TimePoint now);

  // Frees all frames up to `seq`; a repeated acknowledgement changes nothing. kMalformed if `seq` was never sent.
  Status Acknowledge(std::uint64_t seq, TimePoint now);

  // Since when the receiver owes an acknowledgement without any progress; none if it owes none.
  std::optional<TimePoint> waiting_since() const;

  // When the receiver last acknowledged a frame, or was sent one after it had acknowledged all.
  TimePoint progress_at() const { return progress_at_; }

 private:
  const Window window_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> in_flight_;  // (seq, tensor bytes)
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t next_seq_ = 0;
  TimePoint progress_at_;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_EDGE_H_
