// The interface by which meshnet-worker-measure sees the steps of a loaded shard (measure/shard_captures.h). The
// shipped worker has no implementation.
#ifndef MESHNET_SESSION_STEP_OBSERVER_H_
#define MESHNET_SESSION_STEP_OBSERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "engine/shard_engine.h"

namespace meshnet {

struct SessionTerms;
struct StepItem;

// Every method but Close: compute thread only.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // Adds the logits, [vocab_size], from which the token at `position` is drawn.
  virtual void AddLogits(const SessionTerms& terms, std::uint64_t position, std::span<const float> row) = 0;

  // Adds a step that the engine has run and that is not committed yet, with the marks of its parts.
  virtual void AddStep(std::span<const StepItem> items, std::span<const StepMark> marks) = 0;

  // The messages of the added step were serialised and handed to the transport at this time.
  virtual void StepSent(std::chrono::steady_clock::time_point at) = 0;

  // The shard is being unloaded. Any thread.
  virtual void Close() = 0;
};

// Makes the observer of a shard that is being loaded. If empty, steps are not observed.
using StepObserverFactory = std::function<std::shared_ptr<StepObserver>()>;

}  // namespace meshnet

#endif  // MESHNET_SESSION_STEP_OBSERVER_H_
