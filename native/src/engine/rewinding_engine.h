// Wraps an engine whose memory cannot be truncated at every position, so that its sequences can be rewound all the
// same. It is used only if a load asks for it (LoadPlan::keep_rewind_states), since saved states take memory.
//
// It saves the state of a sequence about every SequenceHistory::kRowsApart rows and keeps the rows that follow. A
// rewind restores the newest state at or before its position and computes the rows from there up to the position again.
// It can reach every position among the newest kRowsApart rows that came after the prompt. Inside the prompt, and
// further back, it can reach only some. Bounds: the states of a shard take at most kMaxStateBytes. A state that does
// not fit is not kept, and rewinds that need it are refused. Threads: as for the wrapped engine. The reasons are in
// docs/adr/0020-states-to-go-back-to.md.
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

  // Bytes of all states that are saved for rewinds, of all sequences together.
  std::uint64_t state_bytes() const;

 private:
  SequenceHistory* HistoryOf(SequenceId sequence);
  void KeepState(SequenceId sequence);
  Status GoBack(SequenceId sequence, const SequenceHistory::Way& way);

  const std::unique_ptr<ShardEngine> engine_;
  const std::uint64_t max_state_bytes_;
  std::vector<SequenceHistory> histories_;  // by sequence id
  std::vector<StepResult> replay_results_;
};

// Wraps `engine` in a RewindingEngine, or returns it unchanged if its memory can be truncated at every position.
std::unique_ptr<ShardEngine> KeepStates(std::unique_ptr<ShardEngine> engine);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_REWINDING_ENGINE_H_
