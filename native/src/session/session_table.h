// The open sessions of a loaded shard, the sequences and KV cells that are reserved for them, and the epochs that were
// closed lately. Not thread-safe: owned by a StageMachine. Source: docs/wire.md, Closing and admission.
#ifndef MESHNET_SESSION_SESSION_TABLE_H_
#define MESHNET_SESSION_SESSION_TABLE_H_

#include <deque>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "session/session.h"

namespace meshnet {

class SessionTable {
 public:
  // `facts` outlives the table.
  explicit SessionTable(const ShardFacts& facts);

  // Admits a session and reserves a sequence and KV cells for it. kSessionExists if this epoch is open, kOldEpoch if
  // another epoch is open, or if this or a later one was closed, kTooManySessions if no sequence is free, kKvExhausted
  // if too few cells are free. An older epoch of the session must have been removed before.
  Result<std::shared_ptr<Session>> Admit(SessionTerms terms, TimePoint now);

  // The open session with this id, of any epoch; null if there is none.
  std::shared_ptr<Session> Find(const SessionId& session) const;

  // Removes an open session and remembers its epoch as closed. Its sequence and cells stay reserved until Release.
  void Remove(const Session& session, TimePoint now);

  // Remembers that this epoch of the session and all older ones are closed, even if none of them was ever open.
  void MarkClosed(const SessionId& session, std::uint32_t epoch, TimePoint now);

  // Frees `kv_cells` cells after the engine has closed a sequence. If `is_usable`, the sequence is free as well;
  // otherwise the engine has quarantined it, and it becomes free only with Restore.
  void Release(SequenceId sequence, std::uint64_t kv_cells, bool is_usable);
  void Restore(SequenceId sequence);

  // Reserves a free sequence without cells, for a probe; Release frees it. kTooManySessions if no sequence is free.
  Result<SequenceId> Borrow();

  // Forgets epochs that were closed more than a minute ago, and the oldest ones if there are too many.
  void ForgetOld(TimePoint now);

  const std::unordered_map<SessionId, std::shared_ptr<Session>, SessionIdHash>& open() const { return open_; }
  const std::vector<SequenceId>& quarantined() const { return quarantined_; }
  std::uint64_t kv_cells_reserved() const { return kv_cells_reserved_; }

 private:
  // Takes the smallest free sequence, since engines batch neighbouring sequences best. Call only if one is free.
  SequenceId TakeFree();

  struct Closed {
    SessionId session{};
    std::uint32_t epoch = 0;
    TimePoint at;
  };

  const ShardFacts& facts_;
  std::unordered_map<SessionId, std::shared_ptr<Session>, SessionIdHash> open_;
  std::set<SequenceId> free_;
  std::vector<SequenceId> quarantined_;
  std::uint64_t kv_cells_reserved_ = 0;
  std::unordered_map<SessionId, std::uint32_t, SessionIdHash> closed_epochs_;
  std::deque<Closed> closed_;  // oldest first
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_SESSION_TABLE_H_
