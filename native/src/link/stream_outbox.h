// The queue of items to be written on one stream of gRPC's callback API, which allows one write at a time. It also
// tells the owner when to finish the stream.
//
// Thread-safe. No read or write may start on a stream after Finish, so Finish has to wait for every hold. A hold lasts
// from BeginWrite to EndWrite for a write, and from Hold to Release for a read callback. If EndWrite, Release or Close
// returns true, the queue is closed and the last hold has ended: the caller must call Finish now. This happens once in
// the life of an outbox.
#ifndef MESHNET_LINK_STREAM_OUTBOX_H_
#define MESHNET_LINK_STREAM_OUTBOX_H_

#include <deque>
#include <mutex>
#include <utility>

namespace meshnet {

template <typename Item, typename Batch>
class StreamOutbox {
 public:
  // The most items that may wait. The windows of the admitted sessions allow fewer; if the other end reads so slowly
  // that more would wait, the owner closes the stream.
  static constexpr std::size_t kMaxItems = 1 << 16;

  // Appends an item, or drops it if the queue is closed. Returns false if kMaxItems are waiting already.
  bool Add(Item&& item) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return true;
    if (items_.size() >= kMaxItems) return false;
    items_.push_back(std::move(item));
    return true;
  }

  // If items wait and no write runs, moves some of them into a batch with `pack(deque*, Batch*)` and returns the batch,
  // which the caller then writes. Otherwise returns null.
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

  // Call when a write has ended. If it returns true, finish the stream now.
  bool EndWrite() {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    --holds_;
    return TakeFinish();
  }

  // Call when a read callback begins; the stream is then not finished before Release.
  void Hold() {
    const std::lock_guard lock(mutex_);
    ++holds_;
  }

  // Call when a read callback ends. If it returns true, finish the stream now.
  bool Release() {
    const std::lock_guard lock(mutex_);
    --holds_;
    return TakeFinish();
  }

  // Drops the waiting items and begins no more writes. If it returns true, finish the stream now. Idempotent.
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
