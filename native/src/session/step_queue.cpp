#include "session/step_queue.h"

#include <algorithm>

#include "wire/protocol_limits.h"

namespace meshnet {
namespace {

// Whole prompt chunks share a step up to this many rows. A larger step takes no less time for each row, and the first
// session would wait for the others. Measured on two cores: 12 rows 2.4 ms each, 60 rows 2.0 ms, 256 rows 2.6 ms.
constexpr std::uint32_t kSharedRows = 64;

}  // namespace

void StepQueue::Add(const std::shared_ptr<Session>& session) {
  if (session->pending.empty()) return;
  if (std::find(waiting_.begin(), waiting_.end(), session) != waiting_.end()) return;
  waiting_.push_back(session);
}

void StepQueue::Return(const std::shared_ptr<Session>& session) {
  Remove(*session);
  waiting_.push_front(session);
}

void StepQueue::Remove(const Session& session) {
  waiting_.remove_if([&session](const std::shared_ptr<Session>& entry) { return entry.get() == &session; });
}

bool StepQueue::HasReady() const {
  return std::any_of(waiting_.begin(), waiting_.end(), [](const auto& session) { return session->IsReady(); });
}

std::size_t StepQueue::CountReady() const {
  return static_cast<std::size_t>(
      std::count_if(waiting_.begin(), waiting_.end(), [](const auto& session) { return session->IsReady(); }));
}

std::vector<PickedRows> StepQueue::Pick(const ShardFacts& facts, std::uint32_t prompt_rows, TimePoint now) {
  Filling filling;
  filling.prompt_rows = prompt_rows;
  filling.keeps_exact_alone = !facts.mixes_phases;
  filling.now = now;
  if (facts.mixes_phases) {
    Take(false, facts.max_step_rows, waiting_.size(), &filling);
    Take(true, facts.batch_rows, waiting_.size(), &filling);
    return filling.picked;
  }
  if (!prefill_next_) Take(false, facts.max_step_rows, waiting_.size(), &filling);
  const bool is_cut = prompt_rows < kMaxRows;
  if (filling.picked.empty()) {
    Take(true, is_cut ? facts.max_step_rows : std::min(kSharedRows, facts.max_step_rows), waiting_.size(), &filling);
  }
  if (filling.picked.empty()) Take(false, facts.max_step_rows, waiting_.size(), &filling);
  prefill_next_ =
      !filling.picked.empty() && filling.picked.front().session->pending.front().frame.phase() != v1::PHASE_PREFILL;
  return filling.picked;
}

void StepQueue::Take(bool prefill, std::uint32_t rows_max, std::size_t frames_max, Filling* filling) {
  for (auto entry = waiting_.begin(); entry != waiting_.end() && frames_max > 0;) {
    Session& session = **entry;
    const bool fits_phase =
        session.IsReady() && (session.pending.front().frame.phase() == v1::PHASE_PREFILL) == prefill;
    if (!fits_phase) {
      ++entry;
      continue;
    }
    if (prefill && filling->prompt_rows == 0) return;
    const bool is_alone = prefill && filling->keeps_exact_alone && session.terms().is_exact;
    if (is_alone && !filling->picked.empty()) return;
    const std::uint32_t rows = session.RowsToTake(filling->prompt_rows, filling->now);
    // Once a step has prompt rows, only chunks that fit whole join it: a small piece of a long chunk would cost one
    // more pass over the weights.
    if (filling->has_prompt && rows < session.pending.front().frame.rows()) return;
    // If a chunk has more rows than are worth batching, it runs alone.
    if (filling->rows > 0 && filling->rows + rows > rows_max) return;
    filling->rows += rows;
    if (prefill) {
      filling->has_prompt = true;
      filling->prompt_rows -= std::min(rows, filling->prompt_rows);
    }
    --frames_max;
    filling->picked.push_back({*entry, rows});
    entry = waiting_.erase(entry);
    if (is_alone) return;
  }
}

}  // namespace meshnet
