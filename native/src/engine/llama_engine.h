// The engine on llama.cpp. llama_*.cpp are the only files that include llama.h and ggml headers.
//
// llama.cpp aborts the process if a row count, sequence id or position is bad, so everything is checked before the
// call. KV cells are per sequence (not unified), so that one session's rows never reach another's attention.
#ifndef MESHNET_ENGINE_LLAMA_ENGINE_H_
#define MESHNET_ENGINE_LLAMA_ENGINE_H_

#include <memory>

#include "engine/shard_engine.h"
#include "engine/step_profile.h"

namespace meshnet {

// Loads the plan's layers of a GGUF file. kFileMissing, kNotGguf, kTruncated, kUnsupportedArchitecture,
// kLayersOutOfRange, kInvalidArgument, kCancelled (by the observer), kLoadFailed. Any thread; blocks during the load.
// If the plan asks for rewind states and the model's memory cannot be truncated at every position, states are kept for
// rewinds: rewinding_engine.h. If the plan asks for a profile, `profile` marks the parts of steps; kInvalidArgument if
// it is null then.
Result<std::unique_ptr<ShardEngine>> LoadLlamaEngine(const LoadPlan& plan, const LoadObserver& observer,
                                                     std::unique_ptr<StepProfile> profile = nullptr);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_ENGINE_H_
