// Decides in which slot each of the engine's sequences lies. A slot is a sequence number of llama.cpp.
//
// Each slot has KV cells of its own. So llama.cpp computes the rows of neighbouring slots in one pass over the weights,
// and every gap between the slots of a batch costs another pass. Sessions end in any order, which leaves gaps. So the
// lowest free slot is given out first, and a sequence is moved into a gap once gaps have cost as much time as a move
// does. Pure bookkeeping; not thread-safe.
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

  // `slots`: their number. `move_time`: the time that moving one sequence's cells takes.
  LlamaSlots(std::uint32_t slots, std::chrono::nanoseconds move_time);

  // Takes the lowest free slot; at least one must be free.
  llama_seq_id Take();
  void Free(llama_seq_id slot) { free_.insert(slot); }

  // How many passes over the weights a batch of these slots takes. `slots` is ascending and not empty.
  static std::size_t Passes(std::span<const llama_seq_id> slots);

  // Records how long a batch of these slots took, and counts the time that its gaps cost.
  void NoteStep(std::span<const llama_seq_id> slots, std::chrono::nanoseconds took);

  // Chooses a move to make before a batch of these slots; none if gaps have cost less time since the last move than a
  // move takes, or if the batch has no free slot in a gap. `to` then counts as taken and `from` as free.
  std::optional<Move> CloseGap(std::span<const llama_seq_id> slots);

 private:
  const std::chrono::nanoseconds move_time_;
  std::chrono::nanoseconds lost_{0};  // time lost to gaps since the last move
  std::set<llama_seq_id> free_;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_SLOTS_H_
