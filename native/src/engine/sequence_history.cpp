#include "engine/sequence_history.h"

#include <algorithm>

namespace meshnet {

void SequenceHistory::Add(const StepSlice& slice) {
  length_ = slice.position + slice.rows;
  if (slice.rows > kRowsApart) {
    rows_.clear();
    return;
  }
  rows_.push_back({slice.position,
                   slice.rows,
                   {slice.token_ids.begin(), slice.token_ids.end()},
                   {slice.hidden.begin(), slice.hidden.end()}});
  if (length_ > kMaxRows) ForgetRowsBefore(length_ - kMaxRows);
}

void SequenceHistory::Keep(SequenceState state) {
  asked_at_ = length_;
  states_.push_back(std::move(state));
  if (states_.size() > kStates) states_.pop_front();
  // As long as there is only one state, the empty sequence counts as the older one, and the rows before are kept for
  // it.
  if (states_.size() == kStates) ForgetRowsBefore(states_.front().length);
}

std::optional<SequenceHistory::Way> SequenceHistory::WayTo(std::uint64_t length) const {
  Way way;
  for (const SequenceState& state : states_) {
    if (state.length <= length) way.state = &state;
  }
  std::uint64_t reached = NearestState(length);
  for (const Rows& rows : rows_) {
    if (rows.position != reached || reached == length) continue;
    reached = std::min(rows.end(), length);
    way.slices.push_back(rows.First(static_cast<std::uint32_t>(reached - rows.position)));
  }
  if (reached != length) return std::nullopt;
  return way;
}

std::uint64_t SequenceHistory::NearestState(std::uint64_t length) const {
  std::uint64_t nearest = 0;
  for (const SequenceState& state : states_) {
    if (state.length <= length) nearest = state.length;
  }
  return nearest;
}

void SequenceHistory::Truncate(std::uint64_t length) {
  length_ = length;
  while (!states_.empty() && states_.back().length > length) states_.pop_back();
  if (asked_at_ > length) asked_at_ = NearestState(length);
  while (!rows_.empty() && rows_.back().position >= length) rows_.pop_back();
  if (rows_.empty() || rows_.back().end() <= length) return;
  Rows& last = rows_.back();
  const StepSlice left = last.First(static_cast<std::uint32_t>(length - last.position));
  last.count = left.rows;
  last.token_ids.resize(left.token_ids.size());
  last.hidden.resize(left.hidden.size());
}

std::uint64_t SequenceHistory::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const SequenceState& state : states_) bytes += state.bytes.size();
  return bytes;
}

StepSlice SequenceHistory::Rows::First(std::uint32_t rows) const {
  StepSlice slice;
  slice.position = position;
  slice.rows = rows;
  slice.token_ids = std::span(token_ids).first(token_ids.empty() ? 0 : rows);
  slice.hidden = std::span(hidden).first(hidden.size() / count * rows);
  return slice;
}

void SequenceHistory::ForgetRowsBefore(std::uint64_t position) {
  while (!rows_.empty() && rows_.front().position < position) rows_.pop_front();
}

}  // namespace meshnet
