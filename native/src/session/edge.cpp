#include "session/edge.h"

namespace meshnet {

ReceivingEdge::Arrival ReceivingEdge::Receive(v1::Frame&& frame, v1::Frame* whole, Status* failure) {
  const auto fail = [failure](Status status) {
    *failure = std::move(status);
    return Arrival::kFailed;
  };
  const std::uint32_t next_part = assembler_.assembling() ? assembler_.next_index() : 0;
  if (frame.seq() < next_seq_) return Arrival::kRepeated;
  if (frame.seq() > next_seq_) return fail({Code::kSequenceGap, "a frame is missing"});
  if (frame.has_fragment() && frame.fragment().index() < next_part) return Arrival::kRepeated;
  if (!frame.has_fragment() && assembler_.assembling()) {
    return fail({Code::kMalformed, "a whole frame came while another frame's parts were arriving"});
  }
  Status status = CheckWindow(frame);
  if (!status.ok()) return fail(std::move(status));
  if (frame.has_fragment()) {
    bool complete = false;
    status = assembler_.Add(std::move(frame), window_.tensor_bytes, whole, &complete);
    if (!status.ok()) return fail(std::move(status));
    if (!complete) return Arrival::kKept;
  } else {
    *whole = std::move(frame);
  }
  const std::uint64_t bytes = TensorBytes(*whole);
  unconsumed_.emplace_back(next_seq_++, bytes);
  unconsumed_bytes_ += bytes;
  return Arrival::kDelivered;
}

Status ReceivingEdge::CheckWindow(const v1::Frame& frame) const {
  const std::uint64_t bytes = frame.has_fragment() ? frame.fragment().total_bytes() : TensorBytes(frame);
  if (bytes > window_.tensor_bytes) return {Code::kMessageTooLarge, "the rows are larger than the admitted window"};
  if (unconsumed_.size() >= window_.frames || unconsumed_bytes_ + bytes > window_.tensor_bytes) {
    return {Code::kWindowExceeded, "the frame came without credit"};
  }
  return Status::Ok();
}

void ReceivingEdge::Consume(std::uint64_t seq) {
  while (!unconsumed_.empty() && unconsumed_.front().first <= seq) {
    consumed_seq_ = unconsumed_.front().first;
    unconsumed_bytes_ -= unconsumed_.front().second;
    unconsumed_.pop_front();
  }
}

bool SendingEdge::HasCredit(std::uint64_t tensor_bytes) const {
  return in_flight_.size() < window_.frames && in_flight_bytes_ + tensor_bytes <= window_.tensor_bytes;
}

std::uint64_t SendingEdge::Send(std::uint64_t tensor_bytes, TimePoint now) {
  if (in_flight_.empty()) progress_at_ = now;
  in_flight_.emplace_back(next_seq_, tensor_bytes);
  in_flight_bytes_ += tensor_bytes;
  return next_seq_++;
}

Status SendingEdge::Acknowledge(std::uint64_t seq, TimePoint now) {
  if (seq >= next_seq_) return {Code::kMalformed, "a frame was acknowledged that was never sent"};
  while (!in_flight_.empty() && in_flight_.front().first <= seq) {
    in_flight_bytes_ -= in_flight_.front().second;
    in_flight_.pop_front();
    progress_at_ = now;
  }
  return Status::Ok();
}

std::optional<TimePoint> SendingEdge::waiting_since() const {
  if (in_flight_.empty()) return std::nullopt;
  return progress_at_;
}

}  // namespace meshnet
