#include "step_queue.h"

#include <algorithm>
#include <limits>

namespace meshnet {

void StepQueue::Add(const std::shared_ptr<Session>& session) {
  if (session->pending.empty()) return;
  if (std::find(waiting_.begin(), waiting_.end(), session) != waiting_.end()) return;
  waiting_.push_back(session);
}

void StepQueue::Remove(const Session& session) {
  waiting_.remove_if([&session](const std::shared_ptr<Session>& entry) { return entry.get() == &session; });
}

bool StepQueue::HasReady() const {
  return std::any_of(waiting_.begin(), waiting_.end(), [](const auto& session) { return session->IsReady(); });
}

std::vector<std::shared_ptr<Session>> StepQueue::Pick(const ShardFacts& facts) {
  Picked picked;
  std::uint32_t rows = 0;
  if (facts.mixes_phases) {
    Take(false, facts.max_step_rows, waiting_.size(), &rows, &picked);
    Take(true, facts.batch_rows, waiting_.size(), &rows, &picked);
    return picked;
  }
  if (!prefill_next_) Take(false, facts.max_step_rows, waiting_.size(), &rows, &picked);
  if (picked.empty()) Take(true, facts.max_step_rows, 1, &rows, &picked);
  if (picked.empty()) Take(false, facts.max_step_rows, waiting_.size(), &rows, &picked);
  prefill_next_ = !picked.empty() && picked.front()->pending.front().frame.phase() != v1::PHASE_PREFILL;
  return picked;
}

void StepQueue::Take(bool prefill, std::uint32_t rows_max, std::size_t frames_max, std::uint32_t* rows,
                     Picked* picked) {
  for (auto entry = waiting_.begin(); entry != waiting_.end() && frames_max > 0;) {
    Session& session = **entry;
    const bool fits_phase =
        session.IsReady() && (session.pending.front().frame.phase() == v1::PHASE_PREFILL) == prefill;
    if (!fits_phase) {
      ++entry;
      continue;
    }
    const std::uint32_t frame_rows = session.pending.front().frame.rows();
    // A chunk of more rows than are worth batching runs alone.
    if (*rows > 0 && *rows + frame_rows > rows_max) return;
    *rows += frame_rows;
    --frames_max;
    picked->push_back(*entry);
    entry = waiting_.erase(entry);
  }
}

}  // namespace meshnet
