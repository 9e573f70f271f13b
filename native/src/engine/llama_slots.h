// Maps the engine's sequences to llama.cpp's sequences, called slots.
//
// With cells per sequence, llama.cpp computes rows at once only if their sequences are neighbours: every gap in a batch
// costs a pass over the weights. Sessions end in any order, so the lowest free slot is given out first, and a gap is
// closed once it has cost as much time as moving a sequence into it. Pure bookkeeping; not thread-safe.
#ifndef MESHNET_ENGINE_LLAMA_SLOTS_H_
#define MESHNET_ENGINE_LLAMA_SLOTS_H_

#include <llama.h>

#include <chrono>
#include <optional>
#include <set>
#include <span>

namespace meshnet {

class LlamaSlots {
 public:
  struct Move {
    llama_seq_id from = 0;
    llama_seq_id to = 0;
  };

  // `move_time`: the time to move one sequence's cells.
  LlamaSlots(std::uint32_t slots, std::chrono::nanoseconds move_time);

  // Takes the lowest free slot; at least one must be free.
  llama_seq_id Take();
  void Free(llama_seq_id slot) { free_.insert(slot); }

  // Passes over the weights for a batch of these slots, which are ascending and not empty.
  static std::size_t Passes(std::span<const llama_seq_id> slots);

  // A batch of these slots has been computed and took this long.
  void NoteStep(std::span<const llama_seq_id> slots, std::chrono::nanoseconds took);

  // The sequence to move before a batch of these slots, if gaps have cost enough and one of them is free. The slot
  // moved to then counts as taken, the other one as free.
  std::optional<Move> CloseGap(std::span<const llama_seq_id> slots);

 private:
  const std::chrono::nanoseconds move_time_;
  std::chrono::nanoseconds lost_{0};  // time lost to gaps since the last move
  std::set<llama_seq_id> free_;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_SLOTS_H_
