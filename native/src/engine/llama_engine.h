// An engine that computes with llama.cpp. Only files whose names begin with llama_ include headers of llama.cpp and
// ggml.
//
// llama.cpp ends the process if a row count, sequence id or position is bad, so the engine checks all of them before it
// calls llama.cpp. Each sequence has KV cells of its own (the cache is not unified), so that one session's rows never
// reach another's attention.
#ifndef MESHNET_ENGINE_LLAMA_ENGINE_H_
#define MESHNET_ENGINE_LLAMA_ENGINE_H_

#include <memory>

#include "engine/shard_engine.h"
#include "engine/step_profile.h"

namespace meshnet {

// Loads the plan's layers from a GGUF file. Any thread; blocks during the load. Fails with kCancelled if the
// observer returns false, and otherwise with kFileMissing, kNotGguf, kTruncated, kUnsupportedArchitecture,
// kLayersOutOfRange, kInvalidArgument or kLoadFailed.
// If the plan asks for rewind states and the model's memory cannot be truncated at every position, the engine is
// wrapped to keep them (rewinding_engine.h). If the plan asks for a profile, `profile` marks the parts of steps, and a
// null `profile` is refused with kInvalidArgument.
Result<std::unique_ptr<ShardEngine>> LoadLlamaEngine(const LoadPlan& plan, const LoadObserver& observer,
                                                     std::unique_ptr<StepProfile> profile = nullptr);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_ENGINE_H_
