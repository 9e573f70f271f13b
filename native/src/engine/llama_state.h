// Saves one sequence's memory as bytes and restores it. The bytes are tagged with the layer range (patch 0007).
#ifndef MESHNET_ENGINE_LLAMA_STATE_H_
#define MESHNET_ENGINE_LLAMA_STATE_H_

#include <llama.h>

#include <cstdint>
#include <vector>

#include "engine/shard_engine.h"

namespace meshnet {

// Whether the model's memory can be truncated at every position, which means that it has neither windows nor recurrent
// states. Asked of the whole model, so that all ranges agree.
bool IsTruncated(const llama_model* model);

// Saves a slot. kEngineFailed.
Status SaveSlot(llama_context* context, llama_seq_id slot, StateScope scope, std::vector<std::uint8_t>* bytes);

// Restores a slot and truncates it to the state's length. If kEngineFailed, the slot may hold a part of the state.
Status RestoreSlot(llama_context* context, llama_seq_id slot, const SequenceState& state);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_STATE_H_
