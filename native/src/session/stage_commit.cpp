// The part of StageMachine around a step: takes the rows of a step from the queue and commits its results.
#include <algorithm>

#include "session/stage_machine.h"
#include "wire/protocol_limits.h"

namespace meshnet {
namespace {

std::uint32_t Microseconds(TimePoint::duration duration) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

// Milliseconds of a frame's `budget_ms` that are left after its time on this stage (`residence`), at least 1; 0 if the
// frame has no limit.
std::uint32_t RemainingBudget(std::uint32_t budget_ms, TimePoint::duration residence) {
  if (budget_ms == 0) return 0;
  const auto spent_ms = std::chrono::duration_cast<std::chrono::milliseconds>(residence).count();
  return spent_ms >= budget_ms ? 1 : budget_ms - static_cast<std::uint32_t>(spent_ms);
}

void AddResidence(const StepItem& item, std::uint32_t stage,
                  google::protobuf::RepeatedPtrField<v1::StageResidence>* residence) {
  *residence = item.rows.frame.residence();
  v1::StageResidence* own = residence->Add();
  own->set_stage(stage);
  own->set_queue_us(Microseconds(item.taken_at - item.rows.ready_at));
  own->set_compute_us(item.compute_us);
  own->set_codec_us(item.codec_us);
}

// If a session has not decoded for this long, it does not count as waiting for tokens: its client may be stalled.
constexpr std::chrono::seconds kDecodeMemory{5};

bool HasDecodedLately(const Session& session, TimePoint now) {
  const auto memory = std::max<TimePoint::duration>(kDecodeMemory, session.terms().step_deadline / 2);
  return session.decoded_at.has_value() && now - *session.decoded_at < memory;
}

bool IsDecoding(const Session& session, TimePoint now) {
  const bool is_finished = session.generation.has_value() && session.generation->is_finished();
  const bool has_row = !session.pending.empty() && session.pending.front().frame.phase() != v1::PHASE_PREFILL;
  return !is_finished && (has_row || HasDecodedLately(session, now));
}

bool CausesToken(const v1::Frame& frame) { return frame.phase() != v1::PHASE_PREFILL || frame.prompt_end(); }

}  // namespace

bool StageMachine::AwaitsRows(TimePoint now) const {
  return std::any_of(table_.open().begin(), table_.open().end(), [now](const auto& entry) {
    return entry.second->AwaitsToken() && HasDecodedLately(*entry.second, now);
  });
}

std::vector<StepItem> StageMachine::TakeStep(TimePoint now, bool others_decode) {
  const TimePoint awake_at = std::exchange(turn_awaited_at_, std::nullopt).value_or(now);
  std::vector<StepItem> items;
  for (const auto& [session, rows] : queue_.Pick(facts_, PromptRows(now, others_decode), now)) {
    const PendingRows& front = session->pending.front();
    const std::uint32_t budget_ms = front.frame.budget_ms();
    if (budget_ms > 0 && now - front.received_at >= std::chrono::milliseconds(budget_ms)) {
      Fail(session, {Code::kStepTimeout, "the step's time passed before its turn came"}, session->terms().stage, now);
      continue;
    }
    StepItem item;
    item.session = session;
    item.rows = session->TakeFront(rows, now);
    item.awake_at = awake_at;
    item.taken_at = now;
    items.push_back(std::move(item));
  }
  step_at_ = now;
  return items;
}

std::uint32_t StageMachine::PromptRows(TimePoint now, bool others_decode) const {
  std::uint32_t decoding = 0;
  std::uint32_t newcomers = 0;
  std::chrono::microseconds deadline = std::chrono::microseconds::max();
  for (const auto& [id, session] : table_.open()) {
    deadline = std::min<std::chrono::microseconds>(deadline, session->terms().step_deadline);
    if (IsDecoding(*session, now)) {
      ++decoding;
    } else if (session->IsReady() && !session->terms().is_exact) {
      ++newcomers;
    }
  }
  if (decoding == 0 && !others_decode) return kMaxRows;
  // A quarter of the shortest step deadline: no session in the step, behind it or on another worker comes near its own
  // deadline.
  return prompt_budget_.rows(decoding, std::max(newcomers, 1u), static_cast<double>(deadline.count()) / 4);
}

bool StageMachine::IsSomebodyStreaming(TimePoint now) const {
  return std::any_of(table_.open().begin(), table_.open().end(),
                     [now](const auto& entry) { return entry.second->is_streaming && IsDecoding(*entry.second, now); });
}

void StageMachine::CommitStep(std::vector<StepItem>&& items, TimePoint now) {
  if (items.empty()) return;
  ++counters_.steps;
  counters_.compute_us += items.front().compute_us;
  NoteForBudget(items);
  for (StepItem& item : items) {
    counters_.rows += item.rows.frame.rows();
    item.session->in_step = false;
    // If the session was closed during the step, its result is dropped; the order to close its sequence is queued
    // already.
    if (item.session->is_open) CommitItem(&item, now);
  }
}

// Records the time of a step for the prompt budget, if all its rows are of one phase: only then does it show how long
// such rows take.
void StageMachine::NoteForBudget(const std::vector<StepItem>& items) {
  const auto is_prompt = [](const StepItem& item) { return item.rows.frame.phase() == v1::PHASE_PREFILL; };
  const bool first = is_prompt(items.front());
  std::uint32_t rows = 0;
  for (const StepItem& item : items) {
    if (is_prompt(item) != first) return;
    rows += item.rows.frame.rows();
  }
  prompt_budget_.Note(first, rows, items.front().compute_us);
}

void StageMachine::CommitItem(StepItem* item, TimePoint now) {
  const SessionPointer& session = item->session;
  const v1::Frame& frame = item->rows.frame;
  const Edge edge{frame.from_stage(), frame.to_stage()};
  session->heard_at = now;
  if (!item->status.ok()) {
    Fail(session, item->status, session->terms().stage, now);
    return;
  }
  session->length = frame.position() + frame.rows();
  if (CausesToken(frame)) session->decoded_at = now;
  if (frame.phase() != v1::PHASE_PREFILL) session->is_streaming = true;
  const std::uint64_t seq = frame.seq();
  const bool is_piece = item->rows.is_piece;
  // Rows go before acknowledgements, since the next stage waits for them.
  if (session->terms().is_tail()) {
    CommitToken(session, item, now);
  } else {
    SendDownstream(session, item, now);
  }
  if (!session->is_open) return;
  if (is_piece) {
    queue_.Return(session);
    return;
  }
  const auto receiving = session->receiving.find(edge);
  if (receiving != session->receiving.end()) {
    receiving->second.Consume(seq);
    Acknowledge(*session, edge);
  }
  queue_.Add(session);
}

void StageMachine::SendDownstream(const SessionPointer& session, StepItem* item, TimePoint now) {
  const v1::Frame& taken = item->rows.frame;
  const SessionTerms& terms = session->terms();
  v1::Frame frame;
  frame.set_session(taken.session());
  frame.set_epoch(terms.epoch);
  frame.set_from_stage(terms.stage);
  frame.set_to_stage(terms.stage + 1);
  frame.set_phase(taken.phase());
  frame.set_position(taken.position());
  frame.set_rows(taken.rows());
  frame.set_rewind(taken.rewind());
  frame.set_prompt_end(taken.prompt_end());
  if (facts_.contract.gives_token_ids()) *frame.mutable_token_ids() = taken.token_ids();
  if (CausesToken(taken)) frame.add_logits_rows(taken.rows() - 1);
  frame.set_budget_ms(RemainingBudget(taken.budget_ms(), now - item->rows.received_at));
  AddResidence(*item, terms.stage, frame.mutable_residence());
  const std::uint64_t bytes = item->hidden.has_value() ? item->hidden->data().size() : 0;
  if (item->hidden.has_value()) *frame.add_tensors() = std::move(*item->hidden);
  frame.set_seq(session->downstream->Send(bytes, now));
  session->NoteHandedOn(frame);
  SendFrame(session, std::move(frame), now);
}

void StageMachine::CommitToken(const SessionPointer& session, StepItem* item, TimePoint now) {
  const v1::Frame& frame = item->rows.frame;
  google::protobuf::RepeatedPtrField<v1::StageResidence> residence;
  AddResidence(*item, session->terms().stage, &residence);
  const Edge to_gateway = session->terms().downstream();
  std::optional<v1::EdgeMessage> token_message;
  if (item->token.has_value()) {
    const std::uint64_t position = frame.position() + frame.rows();
    token_message = EdgeMessageOn(*session, to_gateway);
    *token_message->mutable_token() = session->generation->Commit(*item->token, position, residence, now);
    if (!session->generation->is_finished()) session->held_token = {item->token->token_id, position};
    ReleaseToken(session, now);
  }
  if (frame.phase() == v1::PHASE_PREFILL) {
    v1::EdgeMessage message = EdgeMessageOn(*session, to_gateway);
    message.mutable_prefill()->set_done(session->length);
    *message.mutable_prefill()->mutable_residence() = std::move(residence);
    outgoing_.push_back({{}, std::move(message)});
  }
  if (token_message.has_value()) outgoing_.push_back({{}, std::move(*token_message)});
}

void StageMachine::ReleaseToken(const SessionPointer& session, TimePoint now) {
  const SessionTerms& terms = session->terms();
  if (!session->held_token.has_value() || !session->generation->HasWindow()) return;
  if (session->ring.has_value() && !session->ring->HasCredit(0)) return;
  const HeldToken token = *std::exchange(session->held_token, std::nullopt);
  v1::Frame frame;
  frame.set_session(ToBytes(terms.session));
  frame.set_epoch(terms.epoch);
  frame.set_from_stage(terms.stage);
  frame.set_to_stage(0);
  frame.set_phase(v1::PHASE_DECODE);
  frame.set_position(token.position);
  frame.set_rows(1);
  frame.add_token_ids(token.token_id);
  if (session->ring.has_value()) {
    frame.set_budget_ms(static_cast<std::uint32_t>(terms.step_deadline.count()) * terms.n_stages);
    frame.set_seq(session->ring->Send(0, now));
    SendFrame(session, std::move(frame), now);
    return;
  }
  // On a route of one stage, the tail is the head, and the token's row is queued here.
  const Status status = session->Queue(std::move(frame), now);
  if (status.ok()) {
    queue_.Add(session);
  } else {
    Fail(session, status, terms.stage, now);
  }
}

void StageMachine::Acknowledge(const Session& session, Edge edge) {
  const std::optional<std::uint64_t> seq = session.receiving.at(edge).consumed_seq();
  if (!seq.has_value()) return;
  v1::EdgeMessage message = EdgeMessageOn(session, edge);
  message.mutable_ack()->set_seq(*seq);
  outgoing_.push_back({CarrierOf(session, edge), std::move(message)});
}

void StageMachine::AttachBridge() {
  for (const auto& [id, session] : table_.open()) {
    if (!session->generation.has_value()) continue;
    for (const v1::TokenEvent& event : session->generation->unacknowledged()) {
      v1::EdgeMessage message = EdgeMessageOn(*session, session->terms().downstream());
      *message.mutable_token() = event;
      outgoing_.push_back({{}, std::move(message)});
    }
  }
}

void StageMachine::SendFrame(const SessionPointer& session, v1::Frame&& frame, TimePoint now) {
  const Origin destination = CarrierOf(*session, {frame.from_stage(), frame.to_stage()});
  std::vector<v1::Frame> parts;
  const Status status = FragmentFrame(std::move(frame), &parts);
  for (v1::Frame& part : parts) outgoing_.push_back({destination, std::move(part)});
  if (!status.ok()) Fail(session, status, session->terms().stage, now);
}

v1::EdgeMessage StageMachine::EdgeMessageOn(const Session& session, Edge edge) const {
  v1::EdgeMessage message;
  message.set_session(ToBytes(session.terms().session));
  message.set_epoch(session.terms().epoch);
  message.set_from_stage(edge.from_stage);
  message.set_to_stage(edge.to_stage);
  return message;
}

Origin StageMachine::CarrierOf(const Session& session, Edge edge) const {
  const EdgeTerms* terms = session.terms().Find(edge);
  if (terms == nullptr || terms->carrier != Carrier::kPeer) return {};
  return {Carrier::kPeer, terms->peer_fingerprint};
}

}  // namespace meshnet
