// The seam by which meshnet-worker-measure sees the steps of a loaded shard (measure/shard_captures.h). The shipped
// worker has no implementation.
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

  // A row, [vocab_size], from which the token at `position` is drawn.
  virtual void AddLogits(const SessionTerms& terms, std::uint64_t position, std::span<const float> row) = 0;

  // A step that the engine has run and that is not committed yet, and the marks of its parts.
  virtual void AddStep(std::span<const StepItem> items, std::span<const StepMark> marks) = 0;

  // The messages of the added step were serialised and handed to the transport then.
  virtual void StepSent(std::chrono::steady_clock::time_point at) = 0;

  // The shard is being unloaded. Any thread.
  virtual void Close() = 0;
};

// Makes the observer of a shard that is being loaded. Empty: nobody observes.
using StepObserverFactory = std::function<std::shared_ptr<StepObserver>()>;

}  // namespace meshnet

#endif  // MESHNET_SESSION_STEP_OBSERVER_H_
