#include "engine/llama_slots.h"

namespace meshnet {

LlamaSlots::LlamaSlots(std::uint32_t slots, std::chrono::nanoseconds move_time) : move_time_(move_time) {
  for (llama_seq_id slot = 0; slot < static_cast<llama_seq_id>(slots); ++slot) free_.insert(slot);
}

llama_seq_id LlamaSlots::Take() { return free_.extract(free_.begin()).value(); }

std::size_t LlamaSlots::Passes(std::span<const llama_seq_id> slots) {
  std::size_t passes = 1;
  for (std::size_t i = 1; i < slots.size(); ++i) passes += slots[i] == slots[i - 1] + 1 ? 0 : 1;
  return passes;
}

void LlamaSlots::NoteStep(std::span<const llama_seq_id> slots, std::chrono::nanoseconds took) {
  const auto passes = static_cast<std::int64_t>(Passes(slots));
  lost_ += took * (passes - 1) / passes;
}

std::optional<LlamaSlots::Move> LlamaSlots::CloseGap(std::span<const llama_seq_id> slots) {
  if (lost_ < move_time_ || Passes(slots) == 1) return std::nullopt;
  const auto gap = free_.upper_bound(slots.front());
  if (gap == free_.end() || *gap > slots.back()) return std::nullopt;
  const Move move{slots.back(), *gap};
  free_.erase(gap);
  free_.insert(move.from);
  lost_ = std::chrono::nanoseconds(0);
  return move;
}

}  // namespace meshnet
