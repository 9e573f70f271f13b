// Items that wait to be written on one gRPC stream of the callback API, which allows one write at a time.
//
// Thread-safe. The owner calls its reactor outside of this class's lock. A reactor must start no operation after it has
// finished. So "finish now" is returned exactly once: when the stream is closed and no thread is about to start an
// operation. A write holds from BeginWrite to EndWrite, a read callback from Hold to Release.
#ifndef MESHNET_LINK_STREAM_OUTBOX_H_
#define MESHNET_LINK_STREAM_OUTBOX_H_

#include <deque>
#include <mutex>
#include <utility>

namespace meshnet {

template <typename Item, typename Batch>
class StreamOutbox {
 public:
  // More than any admitted set of windows needs. If a reader is this far behind, the stream is closed.
  static constexpr std::size_t kMaxItems = 1 << 16;

  // Appends an item; drops it once closed. Returns false if the reader is too far behind.
  bool Add(Item&& item) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return true;
    if (items_.size() >= kMaxItems) return false;
    items_.push_back(std::move(item));
    return true;
  }

  // If a write may start and items wait: packs them with `pack(deque*, Batch*)` and returns the batch to write.
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

  // No more items are written. True: finish now. Idempotent.
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
