// Which of llama.cpp's sequences holds which of the engine's.
//
// With cells per sequence, llama.cpp computes rows at once only where their sequences are neighbours: every gap in a
// batch costs a pass over the weights. Sessions end in any order, so slots are given out from the lowest, and a gap
// that has cost as much time as moving a sequence into it would, is closed. Pure bookkeeping; not thread-safe.
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

  // `move_time`: what moving one sequence's cells takes.
  LlamaSlots(std::uint32_t slots, std::chrono::nanoseconds move_time);

  // The lowest free slot; there is one.
  llama_seq_id Take();
  void Free(llama_seq_id slot) { free_.insert(slot); }

  // Passes over the weights that a batch of these slots takes, ascending and not empty.
  static std::size_t Passes(std::span<const llama_seq_id> slots);

  // A batch of these slots has been computed.
  void NoteStep(std::span<const llama_seq_id> slots, std::chrono::nanoseconds took);

  // The sequence to move before a batch of these slots, where gaps have cost enough and one of them is free. The slot
  // moved to counts as taken from then on, the other one as free.
  std::optional<Move> CloseGap(std::span<const llama_seq_id> slots);

 private:
  const std::chrono::nanoseconds move_time_;
  std::chrono::nanoseconds lost_{0};  // to gaps since the last move
  std::set<llama_seq_id> free_;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_SLOTS_H_
