// One loaded shard's sessions as a machine without I/O: messages and step results in, messages and steps out.
//
// Invariants: every admitted session is removed once, and its cells are freed once, by the engine order that the
// removal leaves behind. A frame is given to the engine once. No method blocks, reads a clock or logs.
// Not thread-safe: StageWorker guards it with one lock.
// Source: docs/wire.md.
#ifndef MESHNET_SESSION_STAGE_MACHINE_H_
#define MESHNET_SESSION_STAGE_MACHINE_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "session/prompt_budget.h"
#include "session/session_table.h"
#include "session/step_queue.h"
#include "session/step_runner.h"

namespace meshnet {

// The sender of a message: the agent's bridge, or the peer whose certificate has this fingerprint.
struct Origin {
  Carrier carrier = Carrier::kBridge;
  std::string fingerprint;  // kPeer only
};

using Message = std::variant<v1::Frame, v1::EdgeMessage>;

// A message and the carrier it leaves by.
struct Outgoing {
  Origin destination;
  Message message;
};

// Counters since the shard was loaded.
struct StageCounters {
  std::uint64_t frames_received = 0;
  std::uint64_t frames_repeated = 0;
  std::uint64_t frames_stray = 0;
  std::uint64_t frames_refused = 0;
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t compute_us = 0;
};

class StageMachine {
 public:
  // `facts` outlives the machine.
  explicit StageMachine(const ShardFacts& facts);

  // Admits a session and closes an older epoch of it. Codes: ParseSessionTerms and SessionTable::Admit.
  Result<std::shared_ptr<Session>> Open(const v1::SessionSpec& spec, TimePoint now);

  // Ends the session's epoch and older ones; idempotent. Returns whether it was open.
  bool Close(const SessionId& session, std::uint32_t epoch, TimePoint now);

  // Ends every session and tells the Gateway this failure.
  void FailAll(const Status& status, TimePoint now);

  // Takes a message. If the status is not ok, disconnect the sender; a failure of one session only is handled inside.
  Status Receive(const Origin& origin, v1::Frame&& frame, TimePoint now);
  Status Receive(const Origin& origin, v1::EdgeMessage&& message, TimePoint now);

  // The link to a peer broke: sessions with an edge to it fail with kStageLost.
  void LosePeer(const std::string& fingerprint, const std::string& why, TimePoint now);

  // The agent's bridge is there (again): token events that were not acknowledged are sent again.
  void AttachBridge();

  // Whether the compute thread has an order or a step to run.
  bool HasWork() const { return !orders_.empty() || queue_.HasReady(); }
  // Whether a session has rows for a step.
  bool HasReady() const { return queue_.HasReady(); }
  std::size_t ready_sessions() const { return queue_.CountReady(); }

  // Sequences that the engine has to open and close before the next step, in order; answer each kClose with Released.
  std::vector<EngineOrder> TakeOrders() { return std::exchange(orders_, {}); }
  std::uint64_t orders_given() const { return orders_given_; }
  void Released(const EngineOrder& order, bool is_usable) { table_.Release(order.sequence, order.kv_cells, is_usable); }

  // The compute thread waits for the machine's turn from now until TakeStep. Sessions whose rows are ready meanwhile
  // fail with kStepTimeout if they have waited for a step deadline.
  void AwaitTurn(TimePoint now) { turn_awaited_at_ = now; }

  // Whether a decoding session has no rows here now because they are on another stage or on their way. A session that
  // has stood still for long does not count.
  bool AwaitsRows(TimePoint now) const;

  // Whether a session draws one token after the other. If its prompt may still be under way on a later stage it does
  // not count: that stage would mistake it for another worker's session.
  bool IsSomebodyStreaming(TimePoint now) const;

  // The rows of the next step; empty if none is ready. One step runs at a time. others_decode: sessions of another
  // worker that takes turns with this one are decoding.
  std::vector<StepItem> TakeStep(TimePoint now, bool others_decode = false);
  void CommitStep(std::vector<StepItem>&& items, TimePoint now);

  // Applies deadlines that have passed; returns the latest time for the next call.
  TimePoint Tick(TimePoint now);

  // After an input, no new deadline can pass sooner than this.
  std::chrono::milliseconds shortest_term() const { return shortest_term_; }

  std::vector<Outgoing> TakeOutgoing() { return std::exchange(outgoing_, {}); }

  // Whether an open session has an edge to the peer.
  bool Knows(const std::string& fingerprint) const;

  SessionTable& table() { return table_; }
  const SessionTable& table() const { return table_; }
  const StageCounters& counters() const { return counters_; }

  // Frames and tensor bytes that wait for the engine or are in assembly.
  void CountQueued(std::uint32_t* frames, std::uint64_t* bytes) const;

 private:
  using SessionPointer = std::shared_ptr<Session>;

  void Order(EngineOrder order);
  void Remove(const SessionPointer& session, TimePoint now);
  void Fail(const SessionPointer& session, const Status& status, std::uint32_t stage_at_fault, TimePoint now);
  // Finds the open session that a message belongs to. Null if there is none; then the sender is told so if `answer`.
  SessionPointer FindFor(const Origin& origin, const std::string& session, std::uint32_t epoch, Edge edge, bool answer);
  bool MayUse(const Session& session, const Origin& origin, Edge edge, bool sent_by_receiver) const;
  Status RefuseEdge(const Origin& origin, const SessionPointer& session, Edge edge, TimePoint now);
  void Deliver(const SessionPointer& session, Edge edge, v1::Frame&& frame, TimePoint now);
  void TakeAck(const SessionPointer& session, Edge edge, std::uint64_t seq, TimePoint now);

  // Largest number of prompt rows in a step; kMaxRows if no session is decoding.
  std::uint32_t PromptRows(TimePoint now, bool others_decode) const;
  void NoteForBudget(const std::vector<StepItem>& items);
  void CommitItem(StepItem* item, TimePoint now);
  void SendDownstream(const SessionPointer& session, StepItem* item, TimePoint now);
  void CommitToken(const SessionPointer& session, StepItem* item, TimePoint now);
  // Sends the held token to the head if window and credit allow.
  void ReleaseToken(const SessionPointer& session, TimePoint now);
  void Acknowledge(const Session& session, Edge edge);

  void SendFrame(const SessionPointer& session, v1::Frame&& frame, TimePoint now);
  v1::EdgeMessage EdgeMessageOn(const Session& session, Edge edge) const;
  Origin CarrierOf(const Session& session, Edge edge) const;
  // Since when a session's rows have waited for nothing but the compute turn; none if they wait for something else or
  // do not wait.
  std::optional<TimePoint> TurnAwaitedSince(const Session& session) const;
  std::optional<TimePoint> CheckDeadlines(const SessionPointer& session, TimePoint now);

  const ShardFacts& facts_;
  SessionTable table_;
  StepQueue queue_;
  PromptBudget prompt_budget_;
  std::vector<EngineOrder> orders_;
  std::uint64_t orders_given_ = 0;
  std::vector<Outgoing> outgoing_;
  TimePoint step_at_;
  std::optional<TimePoint> turn_awaited_at_;
  std::chrono::milliseconds shortest_term_{kClosedMemoryMs};
  StageCounters counters_;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_STAGE_MACHINE_H_
