#include "engine/llama_batch_rows.h"

#include <algorithm>

namespace meshnet {
namespace {

// How many positions a row without a token id has in models that also rotate by an image's height and width.
constexpr std::size_t kImagePositions = 4;

bool RotatesByImage(const llama_model* model) {
  const llama_rope_type type = llama_model_rope_type(model);
  return type == LLAMA_ROPE_TYPE_MROPE || type == LLAMA_ROPE_TYPE_IMROPE;
}

}  // namespace

LlamaBatchRows::LlamaBatchRows(const ShardFacts& facts, const llama_model* model)
    : is_head_(facts.is_head()),
      is_tail_(facts.is_tail()),
      takes_token_ids_(facts.contract.needs_token_ids()),
      takes_image_positions_(!takes_token_ids_ && RotatesByImage(model)) {}

void LlamaBatchRows::Clear() {
  tokens_.clear();
  hidden_.clear();
  positions_.clear();
  sequence_ids_.clear();
  wants_logits_.clear();
}

void LlamaBatchRows::Add(const StepSlice& slice, llama_seq_id slot) {
  auto wanted = slice.logits_rows.begin();
  for (std::uint32_t row = 0; row < slice.rows; ++row) {
    const bool wants = is_tail_ && wanted != slice.logits_rows.end() && *wanted == row;
    if (wants) ++wanted;
    if (takes_token_ids_) tokens_.push_back(static_cast<llama_token>(slice.token_ids[row]));
    positions_.push_back(static_cast<llama_pos>(slice.position + row));
    sequence_ids_.push_back(slot);
    wants_logits_.push_back(wants ? 1 : 0);
  }
  hidden_.insert(hidden_.end(), slice.hidden.begin(), slice.hidden.end());
}

bool LlamaBatchRows::wants_logits() const {
  return std::any_of(wants_logits_.begin(), wants_logits_.end(), [](auto wants) { return wants != 0; });
}

// Gives each row four positions. A row of text has its own position in the first three and 0 in the last.
void LlamaBatchRows::SpreadPositions() {
  const std::size_t rows = sequence_ids_.size();
  positions_.resize(kImagePositions * rows, 0);
  for (std::size_t i = 1; i + 1 < kImagePositions; ++i) {
    std::copy_n(positions_.begin(), rows, positions_.begin() + static_cast<std::ptrdiff_t>(i * rows));
  }
}

llama_batch LlamaBatchRows::Batch() {
  const std::size_t rows = sequence_ids_.size();
  if (takes_image_positions_) SpreadPositions();
  sequence_counts_.assign(rows, 1);
  sequence_pointers_.resize(rows);
  for (std::size_t i = 0; i < rows; ++i) sequence_pointers_[i] = &sequence_ids_[i];
  llama_batch batch{};
  batch.n_tokens = static_cast<std::int32_t>(rows);
  // By `token` and `embd` llama.cpp knows whether rows are token ids, hidden rows or both. Their widths are checked
  // already.
  batch.token = takes_token_ids_ ? tokens_.data() : nullptr;
  batch.embd = is_head_ ? nullptr : hidden_.data();
  batch.pos = positions_.data();
  batch.n_seq_id = sequence_counts_.data();
  batch.seq_id = sequence_pointers_.data();
  batch.logits = wants_logits_.data();
  return batch;
}

}  // namespace meshnet
