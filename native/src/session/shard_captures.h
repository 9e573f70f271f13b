// What a debugging reader may see of a shard: the logits that tokens are drawn from, and when its steps ran.
// Thread-safe, as Capture is.
#ifndef MESHNET_SESSION_SHARD_CAPTURES_H_
#define MESHNET_SESSION_SHARD_CAPTURES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "meshnet/v1/worker.pb.h"
#include "session/capture.h"
#include "session/session_terms.h"

namespace meshnet {

struct ShardCaptures {
  Capture<v1::CapturedLogits> logits;
  Capture<v1::CapturedStep> steps;

  // The shard is being unloaded.
  void Close() {
    logits.Close();
    steps.Close();
  }

  // A row, [vocab_size], from which the token at `position` is drawn.
  void AddLogits(const SessionTerms& terms, std::uint64_t position, std::span<const float> row);

  // Whole steps, as StepTrace gives them.
  void AddSteps(std::vector<v1::CapturedStep>&& traced);
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_SHARD_CAPTURES_H_
