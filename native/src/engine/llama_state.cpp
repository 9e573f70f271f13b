#include "engine/llama_state.h"

namespace meshnet {
namespace {

llama_state_seq_flags Flags(StateScope scope) {
  return scope == StateScope::kWhole ? LLAMA_STATE_SEQ_FLAGS_NONE : LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;
}

}  // namespace

// Compressed KV caches need no test of their own: a model that has them has a sliding window in every layer.
bool IsTruncated(const llama_model* model) {
  return llama_model_n_swa(model) == 0 && !llama_model_is_recurrent(model) && !llama_model_is_hybrid(model);
}

Status SaveSlot(llama_context* context, llama_seq_id slot, StateScope scope, std::vector<std::uint8_t>* bytes) {
  bytes->resize(llama_state_seq_get_size_ext(context, slot, Flags(scope)));
  const std::size_t written = llama_state_seq_get_data_ext(context, bytes->data(), bytes->size(), slot, Flags(scope));
  if (bytes->empty() || written != bytes->size()) return {Code::kEngineFailed, "the sequence's state cannot be saved"};
  return Status::Ok();
}

Status RestoreSlot(llama_context* context, llama_seq_id slot, const SequenceState& state) {
  const std::size_t read =
      llama_state_seq_set_data_ext(context, state.bytes.data(), state.bytes.size(), slot, Flags(state.scope));
  // A kNotTruncated state leaves the rest of the memory as it was, so rows beyond the state's length are removed here.
  const bool is_cut = read == state.bytes.size() &&
                      llama_memory_seq_rm(llama_get_memory(context), slot, static_cast<llama_pos>(state.length), -1);
  if (!is_cut) return {Code::kEngineFailed, "the bytes are not a state of these layers"};
  return Status::Ok();
}

}  // namespace meshnet
