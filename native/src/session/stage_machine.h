// All sessions of one loaded shard as a state machine without I/O. Its inputs are messages, step results and times; its
// outputs are messages, orders to the engine, and steps.
//
// Invariants: every admitted session is removed exactly once. The removal orders the engine to close the session's
// sequence, and this order frees its KV cells exactly once. A frame is given to the engine once. No method blocks,
// reads a clock or logs. Not thread-safe: StageWorker guards it with one lock. Source: docs/wire.md.
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

// The sender or the destination of a message: the agent's bridge, or the peer whose certificate has this fingerprint.
struct Origin {
  Carrier carrier = Carrier::kBridge;
  std::string fingerprint;  // kPeer only
};

using Message = std::variant<v1::Frame, v1::EdgeMessage>;

// A message to be sent, and its destination.
struct Outgoing {
  Origin destination;
  Message message;
};

// Counters since the shard was loaded.
struct StageCounters {
  std::uint64_t frames_received = 0;
  std::uint64_t frames_repeated = 0;  // received before, so they were dropped
  std::uint64_t frames_stray = 0;     // of sessions and epochs that are not open
  std::uint64_t frames_refused = 0;   // that failed a check
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t compute_us = 0;
};

class StageMachine {
 public:
  // `facts` outlives the machine.
  explicit StageMachine(const ShardFacts& facts);

  // Admits a session after closing an older epoch of it. Codes: those of ParseSessionTerms and SessionTable::Admit.
  Result<std::shared_ptr<Session>> Open(const v1::SessionSpec& spec, TimePoint now);

  // Closes the session if its open epoch is `epoch` or an older one, and remembers these epochs as closed; idempotent.
  // Returns whether the session was open.
  bool Close(const SessionId& session, std::uint32_t epoch, TimePoint now);

  // Ends every session and reports this failure to the Gateway.
  void FailAll(const Status& status, TimePoint now);

  // Handles a message. If the status is not ok, the caller must disconnect the sender. A failure that concerns only one
  // session ends that session, and the status is ok.
  Status Receive(const Origin& origin, v1::Frame&& frame, TimePoint now);
  Status Receive(const Origin& origin, v1::EdgeMessage&& message, TimePoint now);

  // Handles a broken link to a peer: sessions with an edge to it fail with kStageLost.
  void LosePeer(const std::string& fingerprint, const std::string& why, TimePoint now);

  // Handles a new bridge of the agent: token events that were not acknowledged are sent again.
  void AttachBridge();

  // Whether the compute thread has an order (to open or close a sequence) or a step to run.
  bool HasWork() const { return !orders_.empty() || queue_.HasReady(); }
  // Whether a session has rows that a step can take now.
  bool HasReady() const { return queue_.HasReady(); }
  std::size_t ready_sessions() const { return queue_.CountReady(); }

  // Takes the orders to open and close sequences, which the engine must run in this order before the next step. Call
  // Released for each kClose that it has run.
  std::vector<EngineOrder> TakeOrders() { return std::exchange(orders_, {}); }
  std::uint64_t orders_given() const { return orders_given_; }
  void Released(const EngineOrder& order, bool is_usable) { table_.Release(order.sequence, order.kv_cells, is_usable); }

  // Notes that the compute thread waits for the machine's compute turn from now until TakeStep. If a session's rows are
  // ready and wait for the turn for the session's step deadline, the session fails with kStepTimeout.
  void AwaitTurn(TimePoint now) { turn_awaited_at_ = now; }

  // Whether the next row of a decoding session is on another stage or on its way to this one. A session that has not
  // decoded for several seconds does not count.
  bool AwaitsRows(TimePoint now) const;

  // Whether a session is decoding and this stage has computed a decode row of it. If so, the machine's other workers
  // are told to cut their prompts. A session does not count before its first decode row, because another worker of this
  // machine may be a later stage that still computes the session's own prompt and would cut it.
  bool IsSomebodyStreaming(TimePoint now) const;

  // Takes the rows of the next step from the queue; empty if none is ready. One step runs at a time. `others_decode`:
  // whether sessions of other workers on this machine are decoding.
  std::vector<StepItem> TakeStep(TimePoint now, bool others_decode = false);
  void CommitStep(std::vector<StepItem>&& items, TimePoint now);

  // Fails the sessions whose deadlines have passed; returns the latest time for the next call.
  TimePoint Tick(TimePoint now);

  // The shortest time between an input and a deadline that this input can set.
  std::chrono::milliseconds shortest_term() const { return shortest_term_; }

  std::vector<Outgoing> TakeOutgoing() { return std::exchange(outgoing_, {}); }

  // Whether an open session has an edge to the peer with this fingerprint.
  bool Knows(const std::string& fingerprint) const;

  SessionTable& table() { return table_; }
  const SessionTable& table() const { return table_; }
  const StageCounters& counters() const { return counters_; }

  // Counts the frames that wait for the engine, and the tensor bytes that have arrived and are not computed yet.
  void CountQueued(std::uint32_t* frames, std::uint64_t* bytes) const;

 private:
  using SessionPointer = std::shared_ptr<Session>;

  void Order(EngineOrder order);
  void Remove(const SessionPointer& session, TimePoint now);
  void Fail(const SessionPointer& session, const Status& status, std::uint32_t stage_at_fault, TimePoint now);
  // Finds the open session that a message belongs to. Null if there is none; if `answer`, the sender is then told that
  // the session is not open.
  SessionPointer FindFor(const Origin& origin, const std::string& session, std::uint32_t epoch, Edge edge, bool answer);
  bool MayUse(const Session& session, const Origin& origin, Edge edge, bool sent_by_receiver) const;
  Status RefuseEdge(const Origin& origin, const SessionPointer& session, Edge edge, TimePoint now);
  void Deliver(const SessionPointer& session, Edge edge, v1::Frame&& frame, TimePoint now);
  void TakeAck(const SessionPointer& session, Edge edge, std::uint64_t seq, TimePoint now);

  // Largest number of prompt rows in the next step; kMaxRows if no session is decoding, neither here nor on another
  // worker (`others_decode`).
  std::uint32_t PromptRows(TimePoint now, bool others_decode) const;
  void NoteForBudget(const std::vector<StepItem>& items);
  void CommitItem(StepItem* item, TimePoint now);
  void SendDownstream(const SessionPointer& session, StepItem* item, TimePoint now);
  void CommitToken(const SessionPointer& session, StepItem* item, TimePoint now);
  // Sends the held token to the head if the token window and the ring's window have room.
  void ReleaseToken(const SessionPointer& session, TimePoint now);
  void Acknowledge(const Session& session, Edge edge);

  void SendFrame(const SessionPointer& session, v1::Frame&& frame, TimePoint now);
  v1::EdgeMessage EdgeMessageOn(const Session& session, Edge edge) const;
  Origin CarrierOf(const Session& session, Edge edge) const;
  // Since when a session's ready rows have waited for nothing but the compute turn; empty if they are not ready or the
  // compute thread does not wait for the turn.
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
