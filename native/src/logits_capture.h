// The rows of logits that a tail samples from, kept for a debugging reader. Copies nothing while nobody reads.
// Thread-safe; the compute thread never waits for the reader.
#ifndef MESHNET_LOGITS_CAPTURE_H_
#define MESHNET_LOGITS_CAPTURE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>

#include "edge.h"
#include "meshnet/v1/worker.pb.h"
#include "session_terms.h"
#include "status.h"

namespace meshnet {

class LogitsCapture {
 public:
  // Rows that wait for the reader; one more ends the capture.
  static constexpr std::size_t kRowsMax = 64;

  // Begins a capture. kNotReady where one runs or the shard is being unloaded.
  Status Begin();

  // Ends the capture and drops what waits; idempotent.
  void End();

  // Ends the capture for good: the shard is being unloaded.
  void Close();

  // A row, [vocab_size], from which the token at `position` is drawn. Copied where a capture runs.
  void Add(const SessionTerms& terms, std::uint64_t position, std::span<const float> logits);

  // The oldest row, waited for until `until`; none where nothing came. kMessageTooLarge once the reader has taken what
  // was kept before it fell behind, kNotReady once the shard is being unloaded.
  Result<std::optional<v1::CapturedLogits>> Take(TimePoint until);

 private:
  enum class State { kIdle, kRunning, kOverrun, kClosed };

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;              // guarded by mutex_, as below
  std::deque<v1::CapturedLogits> waiting_;  // at most kRowsMax
};

}  // namespace meshnet

#endif  // MESHNET_LOGITS_CAPTURE_H_
