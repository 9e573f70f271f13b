// The part of StageMachine that opens and closes sessions and handles messages and deadlines. The part around a step is
// in stage_commit.cpp.
#include "session/stage_machine.h"

#include <algorithm>

#include "wire/edge_codec.h"

namespace meshnet {
namespace {

// Time until the next call of Tick if no deadline is nearer.
constexpr std::chrono::seconds kIdleTick{60};

// How long a stage waits, after a neighbour has said that it closed the session, before it reports the neighbour as
// lost. The neighbour has told the Gateway the reason, and the Gateway closes the session on every stage; so the reason
// arrives at the Gateway before this report.
constexpr std::chrono::milliseconds kGoneGrace{250};

std::chrono::milliseconds ShortestTerm(const Session& session) {
  const SessionTerms& terms = session.terms();
  const std::chrono::milliseconds shortest = std::min({terms.idle, terms.step_deadline, terms.gateway_grace});
  return session.gone_at.has_value() ? std::min(shortest, kGoneGrace) : shortest;
}

bool IsAnswer(const v1::EdgeMessage& message) { return message.has_ack() || message.has_gone(); }

// The message that tells the sender on an edge that the session is not open on this stage, or no longer.
v1::EdgeMessage Farewell(const std::string& session, std::uint32_t epoch, Edge edge, Code reason) {
  v1::EdgeMessage message;
  message.set_session(session);
  message.set_epoch(epoch);
  message.set_from_stage(edge.from_stage);
  message.set_to_stage(edge.to_stage);
  message.mutable_gone()->set_reason(std::string(CodeName(reason)));
  return message;
}

}  // namespace

StageMachine::StageMachine(const ShardFacts& facts) : facts_(facts), table_(facts) {}

Result<std::shared_ptr<Session>> StageMachine::Open(const v1::SessionSpec& spec, TimePoint now) {
  Result<SessionTerms> terms = ParseSessionTerms(spec, facts_);
  if (!terms.ok()) return terms.status();
  const SessionPointer older = table_.Find(terms.value().session);
  if (older != nullptr && older->terms().epoch < terms.value().epoch) Remove(older, now);
  Result<SessionPointer> session = table_.Admit(std::move(terms.value()), now);
  if (!session.ok()) return session;
  Order({EngineOrder::Kind::kOpen, session.value()->sequence(), 0});
  shortest_term_ = std::min(shortest_term_, ShortestTerm(*session.value()));
  return session;
}

bool StageMachine::Close(const SessionId& session, std::uint32_t epoch, TimePoint now) {
  const SessionPointer open = table_.Find(session);
  const bool was_open = open != nullptr && open->terms().epoch <= epoch;
  if (was_open) Remove(open, now);
  table_.MarkClosed(session, epoch, now);
  return was_open;
}

void StageMachine::FailAll(const Status& status, TimePoint now) {
  std::vector<SessionPointer> open;
  for (const auto& [id, session] : table_.open()) open.push_back(session);
  for (const SessionPointer& session : open) Fail(session, status, session->terms().stage, now);
}

void StageMachine::Order(EngineOrder order) {
  orders_.push_back(order);
  ++orders_given_;
}

void StageMachine::Remove(const SessionPointer& session, TimePoint now) {
  session->is_open = false;
  queue_.Remove(*session);
  Order({EngineOrder::Kind::kClose, session->sequence(), session->terms().kv_cells});
  table_.Remove(*session, now);
}

void StageMachine::Fail(const SessionPointer& session, const Status& status, std::uint32_t stage_at_fault,
                        TimePoint now) {
  v1::EdgeMessage message = EdgeMessageOn(*session, {session->terms().stage, kGatewayStage});
  message.mutable_failure()->set_code(std::string(CodeName(status.code())));
  message.mutable_failure()->set_message(status.message());
  message.mutable_failure()->set_stage(stage_at_fault == kGatewayStage ? session->terms().stage : stage_at_fault);
  outgoing_.push_back({{}, std::move(message)});
  // The failure may be in this stage's own path to the Gateway, so every stage that sends to this one is told as well.
  for (const auto& [edge, receiving] : session->receiving) {
    if (edge.from_stage == kGatewayStage) continue;
    outgoing_.push_back({CarrierOf(*session, edge),
                         Farewell(ToBytes(session->terms().session), session->terms().epoch, edge, status.code())});
  }
  Remove(session, now);
}

Status StageMachine::Receive(const Origin& origin, v1::Frame&& frame, TimePoint now) {
  ++counters_.frames_received;
  const Status address = CheckAddress(frame.session(), frame.epoch(), frame.from_stage(), frame.to_stage());
  if (!address.ok()) {
    ++counters_.frames_refused;
    return address;
  }
  const Edge edge{frame.from_stage(), frame.to_stage()};
  const SessionPointer session = FindFor(origin, frame.session(), frame.epoch(), edge, true);
  if (session == nullptr) return Status::Ok();
  if (session->receiving.count(edge) == 0 || !MayUse(*session, origin, edge, false)) {
    ++counters_.frames_refused;
    return RefuseEdge(origin, session, edge, now);
  }
  session->heard_at = now;
  Status status = CheckFrame(frame);
  if (!status.ok()) {
    ++counters_.frames_refused;
    Fail(session, status, edge.from_stage, now);
    return Status::Ok();
  }
  Deliver(session, edge, std::move(frame), now);
  return Status::Ok();
}

void StageMachine::Deliver(const SessionPointer& session, Edge edge, v1::Frame&& frame, TimePoint now) {
  v1::Frame whole;
  Status status;
  switch (session->receiving.at(edge).Receive(std::move(frame), &whole, &status)) {
    case ReceivingEdge::Arrival::kKept:
      return;
    case ReceivingEdge::Arrival::kRepeated:
      ++counters_.frames_repeated;
      Acknowledge(*session, edge);
      return;
    case ReceivingEdge::Arrival::kFailed:
      break;
    case ReceivingEdge::Arrival::kDelivered:
      status = CheckFrame(whole);
      if (status.ok()) status = session->Queue(std::move(whole), now);
      if (status.ok()) {
        queue_.Add(session);
        return;
      }
  }
  ++counters_.frames_refused;
  Fail(session, status, edge.from_stage, now);
}

Status StageMachine::Receive(const Origin& origin, v1::EdgeMessage&& message, TimePoint now) {
  const Status address = CheckAddress(message.session(), message.epoch(), message.from_stage(), message.to_stage());
  if (!address.ok()) return address;
  const Edge edge{message.from_stage(), message.to_stage()};
  const SessionPointer session = FindFor(origin, message.session(), message.epoch(), edge, false);
  if (session == nullptr) return Status::Ok();
  if (!MayUse(*session, origin, edge, IsAnswer(message))) return RefuseEdge(origin, session, edge, now);
  session->heard_at = now;
  const std::uint32_t sender = IsAnswer(message) ? edge.to_stage : edge.from_stage;
  const Status status = CheckEdgeMessage(message);
  if (!status.ok()) {
    Fail(session, status, sender, now);
    return Status::Ok();
  }
  switch (message.body_case()) {
    case v1::EdgeMessage::kAck:
      TakeAck(session, edge, message.ack().seq(), now);
      break;
    case v1::EdgeMessage::kGone:
      if (sender == kGatewayStage) {
        Fail(session, {Code::kGatewayLost, "the Gateway has closed the session"}, session->terms().stage, now);
      } else {
        session->gone_at = session->gone_at.value_or(now);
        session->gone_stage = sender;
        shortest_term_ = std::min(shortest_term_, kGoneGrace);
      }
      break;
    case v1::EdgeMessage::kClose:
      Remove(session, now);
      break;
    default:
      break;  // a keepalive needs no more than its arrival; other bodies are for the Gateway
  }
  return Status::Ok();
}

// Handles a message on an edge that its sender may not use. If the sender is a peer, it is disconnected and the session
// goes on. The agent's bridge carries the messages of all sessions, so it is kept and the session fails; the relay has
// made sure that the message came from a member of this session.
Status StageMachine::RefuseEdge(const Origin& origin, const SessionPointer& session, Edge edge, TimePoint now) {
  Status status(Code::kEdgeNotPermitted, "the sender may not use this edge");
  if (origin.carrier == Carrier::kPeer) return status;
  Fail(session, status, edge.from_stage, now);
  return Status::Ok();
}

StageMachine::SessionPointer StageMachine::FindFor(const Origin& origin, const std::string& session,
                                                   std::uint32_t epoch, Edge edge, bool answer) {
  const SessionPointer open = table_.Find(ToSessionId(session));
  if (open != nullptr && open->terms().epoch == epoch) return open;
  if (!answer) return nullptr;
  ++counters_.frames_stray;
  const bool is_old = open != nullptr && open->terms().epoch > epoch;
  outgoing_.push_back({origin, Farewell(session, epoch, edge, is_old ? Code::kOldEpoch : Code::kUnknownSession)});
  return nullptr;
}

bool StageMachine::MayUse(const Session& session, const Origin& origin, Edge edge, bool sent_by_receiver) const {
  const std::uint32_t stage = session.terms().stage;
  const std::uint32_t receiver = sent_by_receiver ? edge.from_stage : edge.to_stage;
  const std::uint32_t sender = sent_by_receiver ? edge.to_stage : edge.from_stage;
  if (receiver != stage) return false;
  if (sender == kGatewayStage) return origin.carrier == Carrier::kBridge;
  const EdgeTerms* terms = session.terms().Find(edge);
  return terms != nullptr && terms->carrier == origin.carrier && terms->peer_fingerprint == origin.fingerprint;
}

void StageMachine::TakeAck(const SessionPointer& session, Edge edge, std::uint64_t seq, TimePoint now) {
  Status status = {Code::kMalformed, "an acknowledgement came on an edge that carries no frames"};
  if (session->terms().is_tail() && edge == session->terms().downstream()) {
    status = session->generation->Acknowledge(seq, now);
  } else if (session->downstream.has_value() && edge == session->terms().downstream()) {
    status = session->downstream->Acknowledge(seq, now);
  } else if (session->ring.has_value() && edge == session->terms().ring()) {
    status = session->ring->Acknowledge(seq, now);
  }
  if (!status.ok()) {
    Fail(session, status, edge.to_stage, now);
    return;
  }
  if (session->terms().is_tail()) ReleaseToken(session, now);
}

void StageMachine::LosePeer(const std::string& fingerprint, const std::string& why, TimePoint now) {
  std::vector<std::pair<SessionPointer, std::uint32_t>> lost;
  for (const auto& [id, session] : table_.open()) {
    for (const EdgeTerms& edge : session->terms().edges) {
      if (edge.carrier != Carrier::kPeer || edge.peer_fingerprint != fingerprint) continue;
      const std::uint32_t stage = session->terms().stage;
      lost.emplace_back(session, edge.edge.from_stage == stage ? edge.edge.to_stage : edge.edge.from_stage);
      break;
    }
  }
  for (const auto& [session, stage] : lost) Fail(session, {Code::kStageLost, why}, stage, now);
}

bool StageMachine::Knows(const std::string& fingerprint) const {
  for (const auto& [id, session] : table_.open()) {
    for (const EdgeTerms& edge : session->terms().edges) {
      if (edge.carrier == Carrier::kPeer && edge.peer_fingerprint == fingerprint) return true;
    }
  }
  return false;
}

TimePoint StageMachine::Tick(TimePoint now) {
  table_.ForgetOld(now);
  TimePoint next = now + kIdleTick;
  shortest_term_ = std::chrono::milliseconds(kClosedMemoryMs);
  std::vector<SessionPointer> open;
  for (const auto& [id, session] : table_.open()) open.push_back(session);
  for (const SessionPointer& session : open) {
    shortest_term_ = std::min(shortest_term_, ShortestTerm(*session));
    const std::optional<TimePoint> deadline = CheckDeadlines(session, now);
    if (deadline.has_value()) next = std::min(next, *deadline);
  }
  return next;
}

std::optional<TimePoint> StageMachine::TurnAwaitedSince(const Session& session) const {
  if (!turn_awaited_at_.has_value() || !session.IsReady()) return std::nullopt;
  return std::max(*turn_awaited_at_, session.pending.front().received_at);
}

// Fails the session if a deadline has passed; otherwise returns its nearest deadline.
std::optional<TimePoint> StageMachine::CheckDeadlines(const SessionPointer& session, TimePoint now) {
  struct Deadline {
    std::optional<TimePoint> since;
    std::chrono::milliseconds after;
    Code code;
    const char* message;
    std::uint32_t stage_at_fault;
  };
  const SessionTerms& terms = session->terms();
  const bool is_quiet = !session->in_step && session->pending.empty();
  const Deadline deadlines[] = {
      {session->in_step ? std::optional(step_at_) : std::nullopt, terms.step_deadline, Code::kStepTimeout,
       "a step took too long", terms.stage},
      {TurnAwaitedSince(*session), terms.step_deadline, Code::kStepTimeout,
       "the machine's compute turn did not come in time", terms.stage},
      {session->downstream.has_value() ? session->downstream->waiting_since() : std::nullopt, terms.step_deadline,
       Code::kStepTimeout, "the next stage did not answer", terms.stage + 1},
      {session->ring.has_value() ? session->ring->waiting_since() : std::nullopt, terms.step_deadline,
       Code::kStepTimeout, "the head did not answer", 0},
      {session->token_owed_since(), session->token_patience(), Code::kStepTimeout, "no token came back in time",
       terms.n_stages - 1},
      {session->generation.has_value() ? session->generation->waiting_since() : std::nullopt, terms.gateway_grace,
       Code::kGatewayLost, "no acknowledgement of tokens came in time", terms.stage},
      {session->gone_at, kGoneGrace, Code::kStageLost, "another stage has closed the session", session->gone_stage},
      {is_quiet ? std::optional(session->heard_at) : std::nullopt, terms.idle, Code::kIdle,
       "no message came for too long", terms.stage},
  };
  std::optional<TimePoint> nearest;
  for (const Deadline& deadline : deadlines) {
    if (!deadline.since.has_value()) continue;
    const TimePoint at = *deadline.since + deadline.after;
    if (at <= now) {
      Fail(session, {deadline.code, deadline.message}, deadline.stage_at_fault, now);
      return std::nullopt;
    }
    nearest = nearest.has_value() ? std::min(*nearest, at) : at;
  }
  return nearest;
}

void StageMachine::CountQueued(std::uint32_t* frames, std::uint64_t* bytes) const {
  *frames = 0;
  *bytes = 0;
  for (const auto& [id, session] : table_.open()) {
    *frames += static_cast<std::uint32_t>(session->pending.size());
    for (const auto& [edge, receiving] : session->receiving) *bytes += receiving.held_bytes();
  }
}

}  // namespace meshnet
