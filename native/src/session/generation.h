// The tail's record of one generation: token indices, the finish reason, the token window, and the token events that
// the Gateway has not acknowledged. Not thread-safe: owned by a Session. Source: docs/wire.md, Credits and Finish.
#ifndef MESHNET_SESSION_GENERATION_H_
#define MESHNET_SESSION_GENERATION_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "engine/sampler.h"
#include "meshnet/v1/session.pb.h"
#include "session/edge.h"
#include "session/session_terms.h"

namespace meshnet {

class Generation {
 public:
  // `context_length` is the largest number of positions in a sequence.
  Generation(const SessionTerms& terms, std::uint64_t context_length);

  // Gives the token that was sampled for `position` the next index and returns its event, which is kept until it is
  // acknowledged. `residence` is the time that the token's rows spent on each stage.
  const v1::TokenEvent& Commit(const SampledToken& token, std::uint64_t position,
                               const google::protobuf::RepeatedPtrField<v1::StageResidence>& residence, TimePoint now);

  // Drops the events of all tokens up to `index`, since the Gateway has received them. kMalformed if `index` was never
  // sent.
  Status Acknowledge(std::uint64_t index, TimePoint now);

  bool is_finished() const { return is_finished_; }
  std::uint64_t next_index() const { return next_index_; }

  // Whether the token window has room for one more token before the next acknowledgement.
  bool HasWindow() const { return next_index_ < first_unacknowledged_ + token_window_; }

  // Since when the token window has been full without an acknowledgement; empty if it is not full or the generation is
  // finished.
  std::optional<TimePoint> waiting_since() const;

  // The events that the Gateway has not acknowledged, in order; they are sent again if the agent attaches a new bridge.
  const std::deque<v1::TokenEvent>& unacknowledged() const { return unacknowledged_; }

 private:
  v1::FinishReason FinishOf(std::uint32_t token_id, std::uint64_t position) const;

  const std::vector<std::uint32_t> end_tokens_;
  const std::uint64_t max_tokens_;
  const std::uint64_t context_length_;
  const std::uint64_t token_window_;
  const std::uint32_t choice_;
  std::uint64_t next_index_;
  std::uint64_t first_unacknowledged_;
  bool is_finished_ = false;
  std::deque<v1::TokenEvent> unacknowledged_;
  TimePoint progress_at_;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_GENERATION_H_
