#include "engine/llama_facts.h"

#include <llama-ext.h>

#include <string>

#include "engine/exact_class.h"
#include "engine/llama_state.h"
#include "wire/seam_codec.h"

namespace meshnet {
namespace {

void FillExactClass(const LoadPlan& plan, v1::ExactClass* exact) {
  const ExactClass build = BuildExactClass();
  exact->set_pin(build.pin + ":" + build.patched_tree);
  exact->set_backend(build.backend);
  exact->set_repack(build.repack);
  exact->set_flash_attention(plan.flash_attention);
  exact->set_kv_type_k(build.kv_type_k);
  exact->set_kv_type_v(build.kv_type_v);
  exact->set_ubatch(plan.ubatch_rows);
  exact->set_cpu_features(build.instruction_sets);
  exact->set_threads(plan.threads);  // the same for prompt steps and token steps: llama_engine.cpp
}

}  // namespace

ShardFacts FactsOf(const LoadPlan& plan, const LlamaArtifact& artifact, const llama_model* model,
                   const llama_context* context) {
  ShardFacts facts;
  v1::BoundaryContract& contract = facts.contract;
  contract.mutable_layers()->set_layer_begin(plan.layers.layer_begin);
  contract.mutable_layers()->set_layer_end(plan.layers.layer_end);
  contract.set_n_layers(artifact.n_layers);
  contract.set_architecture(artifact.architecture);
  contract.set_vocab_size(static_cast<std::uint32_t>(llama_vocab_n_tokens(llama_model_get_vocab(model))));
  contract.set_context_length(plan.context_length);
  contract.set_needs_token_ids(llama_model_needs_token_ids(model));
  contract.set_gives_token_ids(plan.layers.layer_end < artifact.token_id_layers_end);
  // The width of the rows that the patched graph takes and gives. It may differ from the width in the file's header.
  const auto seam_width = static_cast<std::uint32_t>(llama_model_n_embd_hidden(model));
  if (plan.layers.layer_begin > 0) facts.input_width = seam_width;
  if (plan.layers.layer_end < artifact.n_layers) facts.output_width = seam_width;
  if (!facts.is_head()) AddHiddenSpec(facts.input_width, contract.mutable_inputs());
  if (!facts.is_tail()) AddHiddenSpec(facts.output_width, contract.mutable_outputs());
  AddCodecs(&contract);
  // llama.cpp chooses rope factors by the context length; all other rope settings come from the artifact.
  contract.set_contract_digest(ContractDigest(plan, contract, "n_ctx_seq=" + std::to_string(llama_n_ctx_seq(context))));
  contract.set_recipe("llama.cpp");
  FillExactClass(plan, contract.mutable_exact_class());
  facts.max_sequences = llama_n_seq_max(context);
  facts.kv_cells = facts.max_sequences * plan.context_length;
  facts.max_step_rows = llama_n_batch(context);
  facts.batch_rows = llama_n_ubatch(context);
  // If each sequence has cells of its own, llama.cpp cuts a batch into parts in which all sequences have equally many
  // rows. So the shapes in which a prompt chunk is computed would depend on the other sessions in its step.
  facts.mixes_phases = false;
  facts.truncates = IsTruncated(model);
  if (facts.is_tail()) facts.nextn_bytes = artifact.nextn_bytes;
  // Of a whole model llama.cpp reports the size of all tensors in the file, of a range the size of the loaded ones.
  const bool is_whole = facts.is_head() && facts.is_tail();
  facts.weights_bytes = llama_model_size(model) - (is_whole ? artifact.nextn_bytes : 0);
  for (const auto& [buffer_type, memory] : llama_get_memory_breakdown(context)) {
    facts.kv_bytes += memory.context;
    facts.compute_bytes += memory.compute;
  }
  return facts;
}

}  // namespace meshnet
