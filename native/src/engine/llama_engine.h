// The engine on llama.cpp. llama_*.cpp are the only files that include llama.h and ggml headers.
//
// llama.cpp aborts the process on a bad row count, sequence id or position: everything is checked before it is called.
// KV cells are per sequence (not unified), so that one session's rows never reach another's attention.
#ifndef MESHNET_ENGINE_LLAMA_ENGINE_H_
#define MESHNET_ENGINE_LLAMA_ENGINE_H_

#include <memory>

#include "engine/shard_engine.h"
#include "engine/step_profile.h"

namespace meshnet {

// Loads the plan's layers of a GGUF file. kFileMissing, kNotGguf, kTruncated, kUnsupportedArchitecture,
// kLayersOutOfRange, kInvalidArgument, kCancelled (by the observer), kLoadFailed. Any thread; blocks for the load.
// If the plan asks for it and the memory cannot be cut off anywhere, states are kept to go back to: rewinding_engine.h.
// `profile` marks the parts of steps if the plan asks for that; if it asks and there is none: kInvalidArgument.
Result<std::unique_ptr<ShardEngine>> LoadLlamaEngine(const LoadPlan& plan, const LoadObserver& observer,
                                                     std::unique_ptr<StepProfile> profile = nullptr);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_ENGINE_H_
