// Facts of a loaded range of layers: its boundary contract, its sizes, and the limits of its steps.
#ifndef MESHNET_ENGINE_LLAMA_FACTS_H_
#define MESHNET_ENGINE_LLAMA_FACTS_H_

#include <llama.h>

#include "engine/llama_artifact.h"
#include "engine/shard_engine.h"

namespace meshnet {

// `plan` is complete, as it was used to create the model and the context.
ShardFacts FactsOf(const LoadPlan& plan, const LlamaArtifact& artifact, const llama_model* model,
                   const llama_context* context);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_FACTS_H_
