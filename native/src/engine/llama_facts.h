// Gathers the facts of a loaded shard: its boundary contract, its sizes in bytes, and the limits of its steps.
#ifndef MESHNET_ENGINE_LLAMA_FACTS_H_
#define MESHNET_ENGINE_LLAMA_FACTS_H_

#include <llama.h>

#include "engine/llama_artifact.h"
#include "engine/shard_engine.h"

namespace meshnet {

// Returns the facts of the shard that llama.cpp has loaded as `model` and `context`. `plan` is the plan that they were
// created with: its defaults are replaced by values.
ShardFacts FactsOf(const LoadPlan& plan, const LlamaArtifact& artifact, const llama_model* model,
                   const llama_context* context);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_FACTS_H_
