// The rows of a step as a llama_batch. Its memory is kept from step to step. Not thread-safe.
#ifndef MESHNET_ENGINE_LLAMA_BATCH_ROWS_H_
#define MESHNET_ENGINE_LLAMA_BATCH_ROWS_H_

#include <llama.h>

#include <cstdint>
#include <vector>

#include "engine/shard_engine.h"

namespace meshnet {

class LlamaBatchRows {
 public:
  // `facts` and `model` describe the layers that the rows are for.
  LlamaBatchRows(const ShardFacts& facts, const llama_model* model);

  void Clear();

  // Adds a slice that was checked against the facts; `slot` is llama.cpp's sequence for it.
  void Add(const StepSlice& slice, llama_seq_id slot);

  bool empty() const { return sequence_ids_.empty(); }

  // Whether the logits of any row are wanted; always false outside the tail.
  bool wants_logits() const;

  // All rows, in the order in which they were added. Valid until the next call.
  llama_batch Batch();

 private:
  void SpreadPositions();

  const bool is_head_;
  const bool is_tail_;
  const bool takes_token_ids_;
  const bool takes_image_positions_;  // four positions a row, if rows come without token ids
  // [rows] each. The head fills tokens_; other stages fill hidden_ [rows, input_width], and tokens_ if they need token
  // ids.
  std::vector<llama_token> tokens_;
  std::vector<float> hidden_;
  std::vector<llama_pos> positions_;  // [4, rows] in a batch with image positions
  std::vector<std::int32_t> sequence_counts_;
  std::vector<llama_seq_id> sequence_ids_;
  std::vector<llama_seq_id*> sequence_pointers_;
  std::vector<std::int8_t> wants_logits_;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_BATCH_ROWS_H_
