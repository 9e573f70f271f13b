#include "session/session_table.h"

#include <algorithm>

namespace meshnet {
namespace {

// Largest number of closed sessions that are remembered; the oldest are dropped first. Only the agent opens and closes
// sessions, so an unknown peer cannot fill this.
constexpr std::size_t kMaxClosed = 16384;

}  // namespace

SessionTable::SessionTable(const ShardFacts& facts) : facts_(facts) {
  for (SequenceId id = 0; id < static_cast<SequenceId>(facts.max_sequences); ++id) free_.insert(id);
}

Result<std::shared_ptr<Session>> SessionTable::Admit(SessionTerms terms, TimePoint now) {
  ForgetOld(now);
  const auto closed = closed_epochs_.find(terms.session);
  if (closed != closed_epochs_.end() && terms.epoch <= closed->second) {
    return Status(Code::kOldEpoch, "this attempt or a later one was closed");
  }
  if (const std::shared_ptr<Session> open = Find(terms.session)) {
    if (open->terms().epoch == terms.epoch) return Status(Code::kSessionExists, "the session is open");
    return Status(Code::kOldEpoch, "another attempt is open");
  }
  if (free_.empty()) return Status(Code::kTooManySessions, "all sequences are in use");
  if (kv_cells_reserved_ + terms.kv_cells > facts_.kv_cells) {
    return Status(Code::kKvExhausted, "not enough KV cells are free for prompt and answer");
  }
  const SequenceId sequence = TakeFree();
  kv_cells_reserved_ += terms.kv_cells;
  const SessionId id = terms.session;
  auto session = std::make_shared<Session>(std::move(terms), sequence, facts_, now);
  open_.emplace(id, session);
  return session;
}

std::shared_ptr<Session> SessionTable::Find(const SessionId& session) const {
  const auto found = open_.find(session);
  return found == open_.end() ? nullptr : found->second;
}

void SessionTable::Remove(const Session& session, TimePoint now) {
  const SessionId id = session.terms().session;
  const std::uint32_t epoch = session.terms().epoch;
  open_.erase(id);
  MarkClosed(id, epoch, now);
}

void SessionTable::MarkClosed(const SessionId& session, std::uint32_t epoch, TimePoint now) {
  std::uint32_t& closed = closed_epochs_[session];
  if (epoch <= closed) return;
  closed = epoch;
  closed_.push_back({session, epoch, now});
  ForgetOld(now);
}

void SessionTable::Release(SequenceId sequence, std::uint64_t kv_cells, bool is_usable) {
  kv_cells_reserved_ -= kv_cells;
  if (is_usable) {
    free_.insert(sequence);
  } else {
    quarantined_.push_back(sequence);
  }
}

void SessionTable::Restore(SequenceId sequence) {
  const auto found = std::find(quarantined_.begin(), quarantined_.end(), sequence);
  if (found == quarantined_.end()) return;
  quarantined_.erase(found);
  free_.insert(sequence);
}

Result<SequenceId> SessionTable::Borrow() {
  if (free_.empty()) return Status(Code::kTooManySessions, "all sequences are in use");
  return TakeFree();
}

SequenceId SessionTable::TakeFree() { return free_.extract(free_.begin()).value(); }

void SessionTable::ForgetOld(TimePoint now) {
  while (!closed_.empty() &&
         (closed_.size() > kMaxClosed || now - closed_.front().at > std::chrono::milliseconds(kClosedMemoryMs))) {
    const Closed& oldest = closed_.front();
    const auto found = closed_epochs_.find(oldest.session);
    if (found != closed_epochs_.end() && found->second == oldest.epoch) closed_epochs_.erase(found);
    closed_.pop_front();
  }
}

}  // namespace meshnet
