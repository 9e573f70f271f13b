// Keeps the newest saved states of one sequence, and the rows that it computed since the oldest of them. With these, a
// sequence can be rewound although its memory cannot be truncated at every position: a state is restored, and the rows
// up to the wanted length are computed again.
//
// Bounds: kStates states and kMaxRows rows. Pure bookkeeping; not thread-safe.
#ifndef MESHNET_ENGINE_SEQUENCE_HISTORY_H_
#define MESHNET_ENGINE_SEQUENCE_HISTORY_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/shard_engine.h"

namespace meshnet {

class SequenceHistory {
 public:
  static constexpr std::size_t kStates = 2;
  // A state is due once so many rows came since the last one. A slice with more rows is a prompt chunk; its rows are
  // not kept, since a state is due right after it.
  static constexpr std::uint32_t kRowsApart = 32;
  // The most rows that are kept: twice kRowsApart for each state, since a state can be saved only after a whole slice.
  static constexpr std::uint32_t kMaxRows = kStates * 2 * kRowsApart;

  // How to reach a length: restore `state`, then compute `slices` in order. They have the rows of the slices that were
  // computed the first time, except that the last one may be shorter.
  struct Way {
    const SequenceState* state = nullptr;  // null if the way begins with an empty sequence
    std::vector<StepSlice> slices;         // name sequence 0 and want no logits; valid until the history changes
  };

  // The history of a sequence that already has `length` rows. Those rows are not known, so they cannot be computed
  // again.
  explicit SequenceHistory(std::uint64_t length = 0) : length_(length), asked_at_(0) {}

  // Adds the rows of a slice that has just been computed.
  void Add(const StepSlice& slice);

  // Whether it is time to save the state of the sequence; call Keep or Skip if so.
  bool WantsState() const { return length_ - asked_at_ >= kRowsApart; }
  // Keeps the state that the sequence has now, in place of the oldest one if there are kStates.
  void Keep(SequenceState state);
  // Records that the state could not be saved or kept; the next one is due in kRowsApart rows.
  void Skip() { asked_at_ = length_; }

  // How to rewind the sequence to a shorter length; none if that is impossible.
  std::optional<Way> WayTo(std::uint64_t length) const;

  // The length of the newest kept state that is at most `length` rows long; 0, for the empty sequence, if there is
  // none.
  std::uint64_t NearestState(std::uint64_t length) const;

  // Call once the sequence was truncated to `length` rows: forgets later rows and longer states.
  void Truncate(std::uint64_t length);

  // Bytes of all kept states.
  std::uint64_t state_bytes() const;
  // Bytes of the state that the next Keep replaces; 0 if it replaces none.
  std::uint64_t replaced_bytes() const { return states_.size() < kStates ? 0 : states_.front().bytes.size(); }

 private:
  struct Rows {
    std::uint64_t position = 0;
    std::uint32_t count = 0;
    std::vector<std::uint32_t> token_ids;  // [count], or empty if the slice had none
    std::vector<float> hidden;             // [count, input_width]; empty on the head

    std::uint64_t end() const { return position + count; }
    StepSlice First(std::uint32_t rows) const;
  };

  void ForgetRowsBefore(std::uint64_t position);

  std::uint64_t length_;
  std::uint64_t asked_at_;            // the length when a state was last kept or skipped
  std::deque<SequenceState> states_;  // the longest is last
  std::deque<Rows> rows_;             // without gaps; the last row is the sequence's newest
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_SEQUENCE_HISTORY_H_
