// Wraps an engine whose memory cannot be truncated at every position, so that its sequences can be rewound. Used only
// if a load asks for it (LoadPlan::keep_rewind_states), since the states take memory.
//
// About every SequenceHistory::kRowsApart rows, the state of a sequence is kept, and the rows since then. A rewind
// restores the newest state at or before the position and computes the rows behind it again. After a prompt's last
// slice, all of the newest kRowsApart rows can be taken back; in a prompt, and further back, only single positions.
// Bounds: kMaxStateBytes of states a shard. If a state finds no room it is not kept, and rewinds that need it are
// refused. Threads: as the engine inside. docs/adr/0020-states-to-go-back-to.md gives the reasons.
#ifndef MESHNET_ENGINE_REWINDING_ENGINE_H_
#define MESHNET_ENGINE_REWINDING_ENGINE_H_

#include <memory>
#include <vector>

#include "engine/sequence_history.h"
#include "engine/shard_engine.h"

namespace meshnet {

class RewindingEngine : public ShardEngine {
 public:
  static constexpr std::uint64_t kMaxStateBytes = std::uint64_t{1} << 30;

  explicit RewindingEngine(std::unique_ptr<ShardEngine> engine, std::uint64_t max_state_bytes = kMaxStateBytes)
      : engine_(std::move(engine)), max_state_bytes_(max_state_bytes), histories_(engine_->facts().max_sequences) {}

  const ShardFacts& facts() const override { return engine_->facts(); }
  Status Open(SequenceId sequence) override { return engine_->Open(sequence); }
  Status Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) override;
  Status Rewind(SequenceId sequence, std::uint64_t length) override;
  Result<SequenceState> Save(SequenceId sequence, StateScope scope) override { return engine_->Save(sequence, scope); }
  Status Restore(SequenceId sequence, const SequenceState& state) override;
  void Close(SequenceId sequence) override;
  std::uint64_t Length(SequenceId sequence) const override { return engine_->Length(sequence); }
  std::span<const StepMark> marks() const override { return engine_->marks(); }
  bool IsUsable(SequenceId sequence) const override { return engine_->IsUsable(sequence); }

  // Total bytes of the states that are saved for rewinding, over all sequences.
  std::uint64_t state_bytes() const;

 private:
  SequenceHistory* HistoryOf(SequenceId sequence);
  void KeepState(SequenceId sequence);
  Status GoBack(SequenceId sequence, const SequenceHistory::Way& way);

  const std::unique_ptr<ShardEngine> engine_;
  const std::uint64_t max_state_bytes_;
  std::vector<SequenceHistory> histories_;  // [max_sequences]
  std::vector<StepResult> replay_results_;
};

// Wraps the engine, or returns it unchanged if its memory can be truncated at every position.
std::unique_ptr<ShardEngine> KeepStates(std::unique_ptr<ShardEngine> engine);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_REWINDING_ENGINE_H_
