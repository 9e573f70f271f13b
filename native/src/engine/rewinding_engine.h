// An engine whose sequences can go back, around one whose memory cannot be cut off anywhere. Only a load that asks for
// it has one (LoadPlan::keep_rewind_states), since the states take memory.
//
// Every SequenceHistory::kRowsApart rows or so the state of a sequence is kept, and the rows since; to go back is to
// restore the newest state at or before the position and to compute the rows behind it again. After a prompt's last
// slice all of the newest kRowsApart rows can be taken back; in a prompt, and further back, single positions can.
// Bounds: kMaxStateBytes of states a shard. A state that finds no room is not kept, and rewinds that need it are
// refused. Threads: as the engine inside. docs/adr/0020-states-to-go-back-to.md says why so.
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

  // Of all sequences' states now.
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

// The engine itself where its memory can be cut off anywhere.
std::unique_ptr<ShardEngine> KeepStates(std::unique_ptr<ShardEngine> engine);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_REWINDING_ENGINE_H_
