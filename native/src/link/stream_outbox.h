// What waits to be written on one gRPC stream of the callback API, which allows one write at a time.
//
// Thread-safe. The owner calls its reactor outside of this class's lock. "Finish now" is returned exactly once: when
// the stream is closed and nobody is about to start an operation, since a reactor must start none after it has
// finished. A write holds from BeginWrite to EndWrite, a read callback from Hold to Release.
#ifndef MESHNET_LINK_STREAM_OUTBOX_H_
#define MESHNET_LINK_STREAM_OUTBOX_H_

#include <deque>
#include <mutex>
#include <utility>

namespace meshnet {

template <typename Item, typename Batch>
class StreamOutbox {
 public:
  // More than any admitted set of windows needs; a reader that is this far behind is cut off.
  static constexpr std::size_t kMaxItems = 1 << 16;

  // Appends an item; dropped once closed. False where the reader is too far behind.
  bool Add(Item&& item) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return true;
    if (items_.size() >= kMaxItems) return false;
    items_.push_back(std::move(item));
    return true;
  }

  // Where a write may start and something waits: packs items with `pack(deque*, Batch*)` and returns what to write.
  template <typename Pack>
  Batch* BeginWrite(Pack pack) {
    const std::lock_guard lock(mutex_);
    if (is_closed_ || is_writing_ || items_.empty()) return nullptr;
    batch_.Clear();
    pack(&items_, &batch_);
    is_writing_ = true;
    ++holds_;
    return &batch_;
  }

  // A write ended. True: finish now.
  bool EndWrite() {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    --holds_;
    return TakeFinish();
  }

  void Hold() {
    const std::lock_guard lock(mutex_);
    ++holds_;
  }

  // True: finish now.
  bool Release() {
    const std::lock_guard lock(mutex_);
    --holds_;
    return TakeFinish();
  }

  // Nothing more is written. True: finish now. Idempotent.
  bool Close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    items_.clear();
    return TakeFinish();
  }

  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return is_closed_;
  }

 private:
  bool TakeFinish() {
    if (!is_closed_ || holds_ > 0 || is_finished_) return false;
    is_finished_ = true;
    return true;
  }

  mutable std::mutex mutex_;
  std::deque<Item> items_;
  Batch batch_;
  int holds_ = 0;
  bool is_writing_ = false;
  bool is_closed_ = false;
  bool is_finished_ = false;
};

}  // namespace meshnet

#endif  // MESHNET_LINK_STREAM_OUTBOX_H_
