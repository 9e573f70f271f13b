// Decides if a step is delayed for rows that are about to arrive, so that they are computed in the same batch.
//
// Workers of one machine compute in turn. Once the rows of the sessions are split into two groups, they stay split: the
// rows of one group arrive just after the step of the other has begun, so each group costs a pass over the weights of
// its own. One short delay joins the groups. After a delay in which no rows arrived, the next 1, 2, 4, ... steps (at
// most kMaxSkipped) are not delayed. No I/O and no clock; not thread-safe.
#ifndef MESHNET_SESSION_BATCHING_DELAY_H_
#define MESHNET_SESSION_BATCHING_DELAY_H_

#include <algorithm>
#include <cstdint>

namespace meshnet {

class BatchingDelay {
 public:
  // Largest number of steps without a delay that follow a delay in which no rows arrived.
  static constexpr std::uint32_t kMaxSkipped = 64;

  // Whether to delay this step. Call once for each step that could be delayed. If it was delayed, call Note afterwards.
  bool IsWorthwhile() {
    if (skips_left_ == 0) return true;
    --skips_left_;
    return false;
  }

  // Records a delay; `has_come` says whether rows arrived during it.
  void Note(bool has_come) {
    skips_ = has_come ? 0 : std::clamp(2 * skips_, 1u, kMaxSkipped);
    skips_left_ = skips_;
  }

 private:
  std::uint32_t skips_ = 0;
  std::uint32_t skips_left_ = 0;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_BATCHING_DELAY_H_
