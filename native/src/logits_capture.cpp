#include "logits_capture.h"

#include <bit>

namespace meshnet {

static_assert(std::endian::native == std::endian::little, "rows are given out as they lie in memory");

Status LogitsCapture::Begin() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kClosed) return {Code::kNotReady, "the shard is being unloaded"};
  if (state_ != State::kIdle) return {Code::kNotReady, "logits are being captured already"};
  state_ = State::kRunning;
  return Status::Ok();
}

void LogitsCapture::End() {
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  if (state_ != State::kClosed) state_ = State::kIdle;
}

void LogitsCapture::Close() {
  const std::lock_guard lock(mutex_);
  state_ = State::kClosed;
  changed_.notify_all();
}

void LogitsCapture::Add(const SessionTerms& terms, std::uint64_t position, std::span<const float> logits) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kRunning) return;
  if (waiting_.size() == kRowsMax) {
    state_ = State::kOverrun;
    return;
  }
  v1::CapturedLogits& row = waiting_.emplace_back();
  row.set_session(ToBytes(terms.session));
  row.set_epoch(terms.epoch);
  row.set_position(position);
  row.set_logits(logits.data(), logits.size_bytes());
  changed_.notify_all();
}

Result<std::optional<v1::CapturedLogits>> LogitsCapture::Take(TimePoint until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [this] { return !waiting_.empty() || state_ != State::kRunning; });
  if (!waiting_.empty()) {
    std::optional<v1::CapturedLogits> row = std::move(waiting_.front());
    waiting_.pop_front();
    return row;
  }
  if (state_ == State::kOverrun) return Status(Code::kMessageTooLarge, "the reader of the logits fell behind");
  if (state_ == State::kClosed) return Status(Code::kNotReady, "the shard is being unloaded");
  return std::optional<v1::CapturedLogits>();
}

}  // namespace meshnet
