// Saves one sequence's memory as bytes and restores it. The bytes say to which range of layers they belong (patch
// 0007).
#ifndef MESHNET_ENGINE_LLAMA_STATE_H_
#define MESHNET_ENGINE_LLAMA_STATE_H_

#include <llama.h>

#include <cstdint>
#include <vector>

#include "engine/shard_engine.h"

namespace meshnet {

// Whether the model's memory can be truncated at every position: no layer has a sliding window or a recurrent state.
// All shards of a model get the same answer, since layers outside of the shard count too.
bool IsTruncated(const llama_model* model);

// Saves the part of a slot's memory that `scope` names into `bytes`. kEngineFailed if llama.cpp saves nothing.
Status SaveSlot(llama_context* context, llama_seq_id slot, StateScope scope, std::vector<std::uint8_t>* bytes);

// Restores `state` into a slot and removes rows beyond the state's length. After kEngineFailed, the slot may hold a
// part of the state.
Status RestoreSlot(llama_context* context, llama_seq_id slot, const SequenceState& state);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_STATE_H_
