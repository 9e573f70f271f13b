// Decides if a step is delayed for rows that are about to arrive, so that they are computed in the same batch.
//
// Stages of one machine compute in turn. Once the steps of its sessions have fallen apart into groups, they stay apart:
// the rows of one group arrive just after the step of the other has begun, and every group pays for reading the
// weights. A short delay joins them once. If no rows arrive during a delay, it is tried ever more rarely. Pure; not
// thread-safe.
#ifndef MESHNET_SESSION_BATCHING_DELAY_H_
#define MESHNET_SESSION_BATCHING_DELAY_H_

#include <algorithm>
#include <cstdint>

namespace meshnet {

class BatchingDelay {
 public:
  // Largest number of steps that follow each other without a delay after delays in which no rows arrived.
  static constexpr std::uint32_t kMaxSkipped = 64;

  // Call once for each step that could be delayed; if true, delay it and call Note with whether rows arrived.
  bool IsWorthwhile() {
    if (skips_left_ == 0) return true;
    --skips_left_;
    return false;
  }

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
