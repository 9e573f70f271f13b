// Turns the times of one step into messages for a capture of steps.
#ifndef MESHNET_MEASURE_STEP_TRACE_H_
#define MESHNET_MEASURE_STEP_TRACE_H_

#include <span>
#include <vector>

#include "engine/shard_engine.h"
#include "meshnet/v1/measure.pb.h"
#include "session/step_runner.h"

namespace meshnet {

// Returns one message for each item that the engine ran, without `sent_us`. Call after the engine has run the items and
// before the session commits them. Each message carries all of `marks`.
std::vector<v1::CapturedStep> TraceSteps(std::span<const StepItem> items, std::span<const StepMark> marks);

// Microseconds on the machine's monotonic clock, which all of its processes share.
std::uint64_t MonotonicMicroseconds(TimePoint at);

}  // namespace meshnet

#endif  // MESHNET_MEASURE_STEP_TRACE_H_
