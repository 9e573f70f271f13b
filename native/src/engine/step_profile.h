// The interface by which meshnet-worker-measure marks the parts of an engine's steps (measure/llama_profile.h). The
// shipped worker has no implementation.
#ifndef MESHNET_ENGINE_STEP_PROFILE_H_
#define MESHNET_ENGINE_STEP_PROFILE_H_

#include <span>
#include <string>

#include "engine/shard_engine.h"

struct llama_context_params;

namespace meshnet {

// Compute thread only. Must outlive the context that it is attached to.
class StepProfile {
 public:
  virtual ~StepProfile() = default;

  // Makes a context that is created with these parameters call this profile.
  virtual void Attach(llama_context_params* params) = 0;

  // A step begins; the marks of the last one are dropped.
  virtual void Begin() = 0;
  // The part with this name ends now.
  virtual void Mark(std::string part) = 0;

  virtual std::span<const StepMark> marks() const = 0;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_STEP_PROFILE_H_
