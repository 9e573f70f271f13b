// Collects the rows of a step and hands them to llama.cpp as one llama_batch. Its buffers are reused from step to step.
// Not thread-safe.
#ifndef MESHNET_ENGINE_LLAMA_BATCH_ROWS_H_
#define MESHNET_ENGINE_LLAMA_BATCH_ROWS_H_

#include <llama.h>

#include <cstdint>
#include <vector>

#include "engine/shard_engine.h"

namespace meshnet {

class LlamaBatchRows {
 public:
  // `facts` and `model` are those of the shard that is to compute the rows.
  LlamaBatchRows(const ShardFacts& facts, const llama_model* model);

  void Clear();

  // Adds the rows of a slice that CheckSlice has accepted. `slot` is the number of the slice's sequence in llama.cpp.
  void Add(const StepSlice& slice, llama_seq_id slot);

  bool empty() const { return sequence_ids_.empty(); }

  // Whether the logits of at least one row are wanted; always false if the shard is not the tail.
  bool wants_logits() const;

  // All rows, in the order in which they were added. The batch is valid until Clear, Add or Batch is called again.
  llama_batch Batch();

 private:
  void SpreadPositions();

  const bool is_head_;
  const bool is_tail_;
  const bool takes_token_ids_;
  // Whether a row has four positions, for models that also rotate by an image's height and width. Rows with token ids
  // never do.
  const bool takes_image_positions_;
  // One element for each row, unless another shape is given. The head fills only tokens_. Other stages fill hidden_,
  // which is [rows, input_width], and also tokens_ if their contract needs token ids.
  std::vector<llama_token> tokens_;
  std::vector<float> hidden_;
  std::vector<llama_pos> positions_;  // [4, rows] if takes_image_positions_
  std::vector<std::int32_t> sequence_counts_;
  std::vector<llama_seq_id> sequence_ids_;
  std::vector<llama_seq_id*> sequence_pointers_;
  std::vector<std::int8_t> wants_logits_;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_BATCH_ROWS_H_
