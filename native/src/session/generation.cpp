#include "session/generation.h"

#include <algorithm>

namespace meshnet {

Generation::Generation(const SessionTerms& terms, std::uint64_t context_length)
    : end_tokens_(terms.end_tokens),
      max_tokens_(terms.max_tokens),
      context_length_(context_length),
      token_window_(terms.token_window),
      choice_(terms.sampling.choice()),
      next_index_(terms.committed.size()),
      first_unacknowledged_(terms.committed.size()) {}

const v1::TokenEvent& Generation::Commit(const SampledToken& token, std::uint64_t position,
                                         const google::protobuf::RepeatedPtrField<v1::StageResidence>& residence,
                                         TimePoint now) {
  v1::TokenEvent& event = unacknowledged_.emplace_back();
  event.set_index(next_index_++);
  event.set_token_id(token.token_id);
  event.set_position(position);
  event.set_choice(choice_);
  if (token.logprob.has_value()) event.set_logprob(*token.logprob);
  for (const v1::TokenLogprob& entry : token.top) *event.add_top_logprobs() = entry;
  *event.mutable_residence() = residence;
  event.set_finish(FinishOf(token.token_id, position));
  is_finished_ = event.finish() != v1::FINISH_REASON_UNSPECIFIED;
  if (!HasWindow()) progress_at_ = now;
  return event;
}

v1::FinishReason Generation::FinishOf(std::uint32_t token_id, std::uint64_t position) const {
  if (std::find(end_tokens_.begin(), end_tokens_.end(), token_id) != end_tokens_.end()) return v1::FINISH_REASON_STOP;
  // A token at the context's end has no cell to be computed in.
  if (next_index_ >= max_tokens_ || position >= context_length_) return v1::FINISH_REASON_LENGTH;
  return v1::FINISH_REASON_UNSPECIFIED;
}

Status Generation::Acknowledge(std::uint64_t index, TimePoint now) {
  if (index >= next_index_) return {Code::kMalformed, "a token was acknowledged that was never sent"};
  while (!unacknowledged_.empty() && unacknowledged_.front().index() <= index) unacknowledged_.pop_front();
  if (index + 1 > first_unacknowledged_) {
    first_unacknowledged_ = index + 1;
    progress_at_ = now;
  }
  return Status::Ok();
}

std::optional<TimePoint> Generation::waiting_since() const {
  if (is_finished_ || HasWindow()) return std::nullopt;
  return progress_at_;
}

}  // namespace meshnet
