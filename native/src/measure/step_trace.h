// The times of one step, item by item, for a capture of steps.
#ifndef MESHNET_MEASURE_STEP_TRACE_H_
#define MESHNET_MEASURE_STEP_TRACE_H_

#include <span>
#include <vector>

#include "engine/shard_engine.h"
#include "meshnet/v1/measure.pb.h"
#include "session/step_runner.h"

namespace meshnet {

// One message for each item that the engine ran; `sent_us` is not set yet. The items were run and not committed yet.
std::vector<v1::CapturedStep> TraceSteps(std::span<const StepItem> items, std::span<const StepMark> marks);

// Microseconds on the machine's monotonic clock, which all of its processes share.
std::uint64_t MonotonicMicroseconds(TimePoint at);

}  // namespace meshnet

#endif  // MESHNET_MEASURE_STEP_TRACE_H_
