#include "engine/rewinding_engine.h"

#include <string>

namespace meshnet {

std::unique_ptr<ShardEngine> KeepStates(std::unique_ptr<ShardEngine> engine) {
  if (engine->facts().truncates) return engine;
  return std::make_unique<RewindingEngine>(std::move(engine));
}

SequenceHistory* RewindingEngine::HistoryOf(SequenceId sequence) {
  const bool is_one = sequence >= 0 && static_cast<std::size_t>(sequence) < histories_.size();
  return is_one ? &histories_[static_cast<std::size_t>(sequence)] : nullptr;
}

std::uint64_t RewindingEngine::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const SequenceHistory& history : histories_) bytes += history.state_bytes();
  return bytes;
}

// States are saved before a step and not after it, because the results of a step are valid only until the next call.
Status RewindingEngine::Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) {
  for (const StepSlice& slice : slices) {
    SequenceHistory* history = HistoryOf(slice.sequence);
    if (history != nullptr && history->WantsState()) KeepState(slice.sequence);
  }
  const Status status = engine_->Step(slices, results);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if ((*results)[i].status.ok()) HistoryOf(slices[i].sequence)->Add(slices[i]);
  }
  return status;
}

void RewindingEngine::KeepState(SequenceId sequence) {
  SequenceHistory& history = *HistoryOf(sequence);
  Result<SequenceState> state = engine_->Save(sequence, StateScope::kNotTruncated);
  const bool fits =
      state.ok() && state_bytes() - history.replaced_bytes() + state.value().bytes.size() <= max_state_bytes_;
  if (fits) {
    history.Keep(std::move(state.value()));
  } else {
    history.Skip();
  }
}

Status RewindingEngine::Rewind(SequenceId sequence, std::uint64_t length) {
  Status status = engine_->Rewind(sequence, length);
  SequenceHistory* history = HistoryOf(sequence);
  if (status.code() == Code::kRewindRefused) {
    const std::optional<SequenceHistory::Way> way = history->WayTo(length);
    if (!way.has_value()) {
      return {Code::kRewindRefused, "there is no kept state to go back to position " + std::to_string(length) +
                                        "; the nearest one before it is to " +
                                        std::to_string(history->NearestState(length))};
    }
    status = GoBack(sequence, *way);
  }
  if (status.ok()) history->Truncate(length);
  return status;
}

Status RewindingEngine::GoBack(SequenceId sequence, const SequenceHistory::Way& way) {
  Status status = way.state == nullptr ? engine_->Rewind(sequence, 0) : engine_->Restore(sequence, *way.state);
  for (StepSlice slice : way.slices) {
    if (!status.ok()) return status;
    slice.sequence = sequence;
    status = engine_->Step({&slice, 1}, &replay_results_);
    if (status.ok()) status = replay_results_.front().status;
  }
  return status;
}

Status RewindingEngine::Restore(SequenceId sequence, const SequenceState& state) {
  const Status status = engine_->Restore(sequence, state);
  if (!status.ok()) return status;
  SequenceHistory& history = *HistoryOf(sequence);
  if (state.scope == StateScope::kNotTruncated) {
    history.Truncate(state.length);
  } else {
    history = SequenceHistory(state.length);
  }
  return status;
}

void RewindingEngine::Close(SequenceId sequence) {
  engine_->Close(sequence);
  if (SequenceHistory* history = HistoryOf(sequence)) *history = SequenceHistory();
}

}  // namespace meshnet
