#include "session/session.h"

#include "session/prompt_budget.h"
#include "wire/seam_codec.h"

namespace meshnet {

Session::Session(SessionTerms terms, SequenceId sequence, const ShardFacts& facts, TimePoint now)
    : heard_at(now), terms_(std::move(terms)), sequence_(sequence), facts_(facts) {
  receiving.emplace(terms_.upstream(), ReceivingEdge(terms_.Find(terms_.upstream())->window));
  if (!terms_.is_tail()) downstream.emplace(terms_.Find(terms_.downstream())->window);
  if (terms_.n_stages > 1) {
    if (terms_.is_head()) receiving.emplace(terms_.ring(), ReceivingEdge(terms_.Find(terms_.ring())->window));
    if (terms_.is_tail()) ring.emplace(terms_.Find(terms_.ring())->window);
  }
  if (terms_.is_tail()) {
    generation.emplace(terms_, facts.contract.context_length());
    sampler.emplace(terms_.sampling, terms_.committed);
  }
}

Status Session::Queue(v1::Frame&& frame, TimePoint now) {
  Status status = CheckRoute(frame);
  if (status.ok()) status = CheckContract(frame);
  if (status.ok()) status = CheckPosition(frame);
  if (!status.ok()) return status;
  for (const v1::Tensor& tensor : frame.tensors()) {
    if (!IsFinite(tensor)) return {Code::kNotFinite, "a row has a value that is not finite"};
  }
  queued_length_ = frame.position() + frame.rows();
  if (frame.phase() == v1::PHASE_DECODE) token_frames_ = 0;
  prompt_done = frame.phase() != v1::PHASE_PREFILL || frame.prompt_end();
  pending.push_back({std::move(frame), now, now});
  return Status::Ok();
}

Status Session::CheckRoute(const v1::Frame& frame) const {
  const bool on_ring = terms_.is_head() && frame.from_stage() != kGatewayStage;
  if (frame.phase() == v1::PHASE_VERIFY) return {Code::kMalformed, "drafts (PHASE_VERIFY) are not supported yet"};
  if (terms_.is_head() && on_ring != (frame.phase() == v1::PHASE_DECODE)) {
    return {Code::kMalformed, "this edge does not carry frames of this phase"};
  }
  if (frame.rewind() && (on_ring || (terms_.is_head() && frame.seq() > 0))) {
    return {Code::kMalformed, "this edge carries no rewind here"};
  }
  // Only the last row of a prompt and the row of a decode frame have logits.
  const bool wants_last = frame.phase() == v1::PHASE_DECODE || frame.prompt_end();
  if (frame.logits_rows_size() > (wants_last ? 1 : 0))
    return {Code::kMalformed, "logits are asked for other rows than the last one"};
  if (frame.logits_rows_size() == 1 && frame.logits_rows(0) != frame.rows() - 1) {
    return {Code::kMalformed, "logits are asked for other rows than the last one"};
  }
  return frame.phase() == v1::PHASE_PREFILL ? CheckPrompt(frame) : Status::Ok();
}

Status Session::CheckPrompt(const v1::Frame& frame) const {
  const std::uint64_t prompt = std::uint64_t{terms_.prompt_tokens} + terms_.committed.size();
  const std::uint64_t end = frame.position() + frame.rows();
  if (prompt_done && !frame.rewind()) return {Code::kMalformed, "a prompt chunk came after the prompt's end"};
  // Stages after the head do not know exactly how many tokens are committed, so the head alone checks the length.
  if (!terms_.is_head()) return Status::Ok();
  if (end > prompt || frame.prompt_end() != (end == prompt)) {
    return {Code::kMalformed, "the prompt's length is not the agreed one"};
  }
  return Status::Ok();
}

Status Session::CheckContract(const v1::Frame& frame) const {
  if (frame.rows() > facts_.max_step_rows) return {Code::kWrongShape, "there are more rows than a step takes"};
  if (facts_.input_width == 0) {
    if (frame.tensors_size() != 0)
      return {Code::kWrongShape, "the head takes token ids only, and the frame has tensors"};
  } else {
    if (frame.tensors_size() != 1 || frame.tensors(0).name() != kHiddenTensor) {
      return {Code::kWrongShape, "the frame does not have the contract's tensors"};
    }
    const v1::Tensor& tensor = frame.tensors(0);
    if (tensor.dtype() != v1::DTYPE_F32 || tensor.codec() != terms_.CodecOf(terms_.upstream())) {
      return {Code::kWrongDtype, "the tensor does not have the contract's element type and the seam's codec"};
    }
    if (tensor.shape(1) != facts_.input_width) return {Code::kWrongShape, "the rows do not have the shard's width"};
  }
  if (frame.token_ids().empty() && facts_.contract.needs_token_ids()) {
    return {Code::kMissingTokenIds, "this shard needs the rows' token ids"};
  }
  for (const std::uint32_t id : frame.token_ids()) {
    if (id >= facts_.contract.vocab_size()) return {Code::kBadTokenId, "a token id is outside the vocabulary"};
  }
  if (downstream.has_value() && !downstream->Fits(OutputBytes(frame))) {
    return {Code::kMessageTooLarge, "the next edge's window cannot hold the rows"};
  }
  return Status::Ok();
}

Status Session::CheckPosition(const v1::Frame& frame) const {
  const std::uint64_t position = frame.position();
  if (frame.rewind()) {
    // Tokens that were sent to the Gateway are never taken back.
    const bool takes_back = generation.has_value() && generation->next_index() > terms_.committed.size();
    if (position > queued_length_ || takes_back)
      return {Code::kWrongPosition, "the stage cannot rewind to this position"};
  } else if (position != queued_length_) {
    return {Code::kWrongPosition, "the rows do not begin at the stage's length"};
  }
  if (position + frame.rows() > facts_.contract.context_length()) return {Code::kContextFull, "the context is full"};
  if (position + frame.rows() > terms_.kv_cells)
    return {Code::kKvExhausted, "there are more rows than the session reserved"};
  return Status::Ok();
}

std::uint64_t Session::OutputBytes(const v1::Frame& frame) const {
  return terms_.PackedRowsBytes(terms_.downstream(), frame.rows(), facts_.output_width);
}

bool Session::IsReady() const {
  if (!is_open || in_step || gone_at.has_value() || pending.empty()) return false;
  return !downstream.has_value() || downstream->HasCredit(OutputBytes(pending.front().frame));
}

std::uint32_t Session::RowsToTake(std::uint32_t prompt_rows, TimePoint now) const {
  const v1::Frame& frame = pending.front().frame;
  if (frame.phase() != v1::PHASE_PREFILL || terms_.is_exact) return frame.rows();
  // A chunk that has waited this long is not cut: the stage before waits until the whole chunk is acknowledged.
  if (now - pending.front().received_at > terms_.step_deadline / 2) return frame.rows();
  return PieceRows(frame.rows(), prompt_rows);
}

PendingRows Session::TakeFront(std::uint32_t rows, TimePoint now) {
  in_step = true;
  PendingRows& front = pending.front();
  if (rows < front.frame.rows()) {
    PendingRows piece{TakeRows(rows, &front.frame), front.received_at, front.ready_at, true};
    front.ready_at = now;
    return piece;
  }
  PendingRows whole = std::move(front);
  pending.pop_front();
  return whole;
}

bool Session::AwaitsToken() const {
  if (!is_open || in_step || !pending.empty() || !decoded_at.has_value() || gone_at.has_value()) return false;
  return !generation.has_value() || (!generation->is_finished() && !held_token.has_value());
}

void Session::NoteHandedOn(const v1::Frame& frame) {
  if (!terms_.is_head()) return;
  if (frame.phase() == v1::PHASE_DECODE) token_frames_ = 1;
  if (frame.prompt_end()) token_frames_ = terms_.Find(terms_.downstream())->window.frames;
}

std::optional<TimePoint> Session::token_owed_since() const {
  if (token_frames_ == 0 || downstream->waiting_since().has_value()) return std::nullopt;
  return downstream->progress_at();
}

std::chrono::milliseconds Session::token_patience() const {
  // The head and the next stage have done their part. The token's way back includes its wait at the tail.
  const std::uint32_t steps_left = (terms_.n_stages - 2) * token_frames_;
  return terms_.step_deadline * steps_left + std::max(terms_.step_deadline, 2 * terms_.gateway_grace);
}

}  // namespace meshnet
