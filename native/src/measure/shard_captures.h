// The two captures of a shard: the logits from which tokens are drawn, and the times of its steps. Both are
// thread-safe, as Capture is.
#ifndef MESHNET_MEASURE_SHARD_CAPTURES_H_
#define MESHNET_MEASURE_SHARD_CAPTURES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "measure/capture.h"
#include "meshnet/v1/measure.pb.h"
#include "session/step_observer.h"

namespace meshnet {

struct ShardCaptures : public StepObserver {
  void AddLogits(const SessionTerms& terms, std::uint64_t position, std::span<const float> row) override;
  void AddStep(std::span<const StepItem> items, std::span<const StepMark> marks) override;
  void StepSent(TimePoint at) override;
  void Close() override {
    logits.Close();
    steps.Close();
  }

  Capture<v1::CapturedLogits> logits;
  Capture<v1::CapturedStep> steps;
  std::vector<v1::CapturedStep> traced;  // of the step whose messages are not sent yet; compute thread only
};

}  // namespace meshnet

#endif  // MESHNET_MEASURE_SHARD_CAPTURES_H_
