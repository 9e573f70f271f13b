// The newest states of one sequence, and the rows that it took since the older state, to compute them again. With them
// a sequence can be rewound although its memory cannot be truncated at every position.
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
  // Rows from one state to the next. Slices of more rows are prompt chunks; they are not kept, since a state follows
  // them.
  static constexpr std::uint32_t kRowsApart = 32;
  // Twice kRowsApart for each state, since a state is due only at the end of a slice.
  static constexpr std::uint32_t kMaxRows = kStates * 2 * kRowsApart;

  // A state to restore and, in order, the rows to compute behind it, in the same slices as before.
  struct Way {
    const SequenceState* state = nullptr;  // null: an empty sequence
    std::vector<StepSlice> slices;         // of sequence 0, without logits; valid until the history is changed
  };

  // Begins at a sequence of this length whose earlier rows are unknown.
  explicit SequenceHistory(std::uint64_t length = 0) : length_(length), asked_at_(0) {}

  // These rows have just been computed.
  void Add(const StepSlice& slice);

  // Whether it is time to keep the state of the sequence as it is now.
  bool WantsState() const { return length_ - asked_at_ >= kRowsApart; }
  void Keep(SequenceState state);
  // No state can be kept now.
  void Skip() { asked_at_ = length_; }

  // How to get to a shorter length; none if that is impossible.
  std::optional<Way> WayTo(std::uint64_t length) const;

  // The largest length up to `length` that needs no computing; 0, the empty sequence, always needs none.
  std::uint64_t NearestState(std::uint64_t length) const;

  // The sequence was truncated to this length.
  void Truncate(std::uint64_t length);

  // Bytes of all states, and of the state that the next one replaces.
  std::uint64_t state_bytes() const;
  std::uint64_t replaced_bytes() const { return states_.size() < kStates ? 0 : states_.front().bytes.size(); }

 private:
  struct Rows {
    std::uint64_t position = 0;
    std::uint32_t count = 0;
    std::vector<std::uint32_t> token_ids;  // [count], or none
    std::vector<float> hidden;             // [count, input_width]; empty on the head

    std::uint64_t end() const { return position + count; }
    StepSlice First(std::uint32_t rows) const;
  };

  void ForgetRowsBefore(std::uint64_t position);

  std::uint64_t length_;
  std::uint64_t asked_at_;            // the length when a state was last kept or skipped
  std::deque<SequenceState> states_;  // ascending lengths
  std::deque<Rows> rows_;             // contiguous, up to length_
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_SEQUENCE_HISTORY_H_
