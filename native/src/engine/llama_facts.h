// What a loaded range of layers says of itself: its boundary contract, its sizes, what its steps may hold.
#ifndef MESHNET_ENGINE_LLAMA_FACTS_H_
#define MESHNET_ENGINE_LLAMA_FACTS_H_

#include <llama.h>

#include "engine/llama_artifact.h"
#include "engine/shard_engine.h"

namespace meshnet {

// `plan`: complete, as the model and the context were made by it.
ShardFacts FactsOf(const LoadPlan& plan, const LlamaArtifact& artifact, const llama_model* model,
                   const llama_context* context);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_FACTS_H_
