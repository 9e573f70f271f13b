// Whether a step is worth holding back for rows that are about to arrive.
//
// Stages of one machine compute in turn. Sessions whose steps have once fallen apart into groups would stay apart: the
// rows of the one group arrive just after the step of the other has begun, and every group pays for reading the
// weights. A short wait joins them, once. Where nobody comes, waiting is tried ever more rarely. Pure; not thread-safe.
#ifndef MESHNET_COMPANY_WAIT_H_
#define MESHNET_COMPANY_WAIT_H_

#include <algorithm>
#include <cstdint>

namespace meshnet {

class CompanyWait {
 public:
  // Steps that are not held back after waits in vain, at most.
  static constexpr std::uint32_t kMaxSkipped = 64;

  // Asked once for each step that could be held back; where true, Note says what came of it.
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

#endif  // MESHNET_COMPANY_WAIT_H_
