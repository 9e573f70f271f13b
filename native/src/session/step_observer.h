// The interface through which meshnet-worker-measure observes the steps of a loaded shard (implemented in
// measure/shard_captures.h). The shipped worker has no implementation.
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

// Called on the compute thread only, except Close.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // Records the logits, [vocab_size], from which the token at `position` is sampled.
  virtual void AddLogits(const SessionTerms& terms, std::uint64_t position, std::span<const float> row) = 0;

  // Records a step that the engine has run and whose results are not committed yet. `marks` are the ends of the step's
  // parts (ShardEngine::marks).
  virtual void AddStep(std::span<const StepItem> items, std::span<const StepMark> marks) = 0;

  // Records when the compute thread had handed on all messages of a step, which the last AddStep has recorded.
  virtual void StepSent(std::chrono::steady_clock::time_point at) = 0;

  // Called when the shard is being unloaded, on any thread.
  virtual void Close() = 0;
};

// Makes the observer of a shard that is being loaded. If the function is empty, steps are not observed.
using StepObserverFactory = std::function<std::shared_ptr<StepObserver>()>;

}  // namespace meshnet

#endif  // MESHNET_SESSION_STEP_OBSERVER_H_
