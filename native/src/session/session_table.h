// The sessions that are open here, their reserved sequences and cells, and the epochs that were closed. Not
// thread-safe: owned by a StageMachine. Source: docs/wire.md, Frames and Failure codes (admission).
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

  // Admits a session and reserves its sequence and cells. kSessionExists, kOldEpoch, kTooManySessions, kKvExhausted.
  // An older epoch of the session must have been removed before.
  Result<std::shared_ptr<Session>> Admit(SessionTerms terms, TimePoint now);

  // The open session with this id, of any epoch; null if there is none.
  std::shared_ptr<Session> Find(const SessionId& session) const;

  // Forgets an open session and remembers its epoch as closed. Its sequence and cells stay reserved until Release.
  void Remove(const Session& session, TimePoint now);

  // Remembers that the epoch and older ones are closed, whether or not they ever were open.
  void MarkClosed(const SessionId& session, std::uint32_t epoch, TimePoint now);

  // The engine has closed a session's sequence: its cells are free. The sequence itself is given out again only if
  // `is_usable`; otherwise the engine has quarantined it, until Restore.
  void Release(SequenceId sequence, std::uint64_t kv_cells, bool is_usable);
  void Restore(SequenceId sequence);

  // Lends a free sequence without cells, for a probe; Release gives it back. kTooManySessions if all are taken.
  Result<SequenceId> Borrow();

  // Drops epochs that were closed more than a minute ago.
  void ForgetOld(TimePoint now);

  const std::unordered_map<SessionId, std::shared_ptr<Session>, SessionIdHash>& open() const { return open_; }
  const std::vector<SequenceId>& quarantined() const { return quarantined_; }
  std::uint64_t kv_cells_reserved() const { return kv_cells_reserved_; }

 private:
  // The smallest free sequence, since engines batch neighbouring sequences best. At least one is free.
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
