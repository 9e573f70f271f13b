// Passes items of a shard's work, such as logits, to a reader that debugs or measures. While there is no reader,
// nothing is copied. Thread-safe; a thread that adds items never waits for the reader.
#ifndef MESHNET_MEASURE_CAPTURE_H_
#define MESHNET_MEASURE_CAPTURE_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "session/edge.h"
#include "wire/status.h"

namespace meshnet {

template <typename Item>
class Capture {
 public:
  // Largest number of items that wait for the reader; one more ends the capture.
  static constexpr std::size_t kItemsMax = 64;

  // Begins a capture. kNotReady if one is running or the shard is being unloaded.
  Status Begin() {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kClosed) return {Code::kNotReady, "the shard is being unloaded"};
    if (state_ != State::kIdle) return {Code::kNotReady, "a capture is already running"};
    state_ = State::kRunning;
    return Status::Ok();
  }

  // Whether a capture is running: it has begun, and has not ended since.
  bool is_running() const {
    const std::lock_guard lock(mutex_);
    return state_ == State::kRunning;
  }

  // Ends the capture and drops waiting items; idempotent.
  void End() {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    if (state_ != State::kClosed) state_ = State::kIdle;
  }

  // Ends the capture for good: the shard is being unloaded.
  void Close() {
    const std::lock_guard lock(mutex_);
    state_ = State::kClosed;
    changed_.notify_all();
  }

  // If a capture is running, appends an item that `fill(Item*)` fills in; ends the capture if kItemsMax are waiting.
  template <typename Fill>
  void Add(Fill fill) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kRunning) return;
    if (waiting_.size() == kItemsMax) {
      state_ = State::kOverrun;
      return;
    }
    fill(&waiting_.emplace_back());
    changed_.notify_all();
  }

  // Takes the oldest item. If none is waiting, waits for one until `until` and returns none if none came. Once all
  // waiting items are taken: kMessageTooLarge if the reader fell behind, kNotReady if the shard is being unloaded.
  Result<std::optional<Item>> Take(TimePoint until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [this] { return !waiting_.empty() || state_ != State::kRunning; });
    if (!waiting_.empty()) {
      std::optional<Item> item = std::move(waiting_.front());
      waiting_.pop_front();
      return item;
    }
    if (state_ == State::kOverrun) return Status(Code::kMessageTooLarge, "the reader fell behind");
    if (state_ == State::kClosed) return Status(Code::kNotReady, "the shard is being unloaded");
    return std::optional<Item>();
  }

 private:
  enum class State { kIdle, kRunning, kOverrun, kClosed };

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;  // guarded by mutex_, as waiting_ is
  std::deque<Item> waiting_;    // at most kItemsMax
};

}  // namespace meshnet

#endif  // MESHNET_MEASURE_CAPTURE_H_
