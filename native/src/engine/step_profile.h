// The interface through which an engine records when the parts of its steps end. Only meshnet-worker-measure implements
// it (measure/llama_profile.h); the shipped worker does not.
#ifndef MESHNET_ENGINE_STEP_PROFILE_H_
#define MESHNET_ENGINE_STEP_PROFILE_H_

#include <span>
#include <string>

#include "engine/shard_engine.h"

struct llama_context_params;

namespace meshnet {

// Records the ends of the parts of a step. Compute thread only. Must outlive the llama_context that it is attached to.
class StepProfile {
 public:
  virtual ~StepProfile() = default;

  // Changes `params` so that a context that is created with them calls this profile as it computes.
  virtual void Attach(llama_context_params* params) = 0;

  // Call when a step begins: drops the marks of the step before.
  virtual void Begin() = 0;
  // Call when the part with this name ends: records the time.
  virtual void Mark(std::string part) = 0;

  virtual std::span<const StepMark> marks() const = 0;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_STEP_PROFILE_H_
