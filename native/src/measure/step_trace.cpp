#include "measure/step_trace.h"

namespace meshnet {

std::uint64_t MonotonicMicroseconds(TimePoint at) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count());
}

std::vector<v1::CapturedStep> TraceSteps(std::span<const StepItem> items, std::span<const StepMark> marks) {
  std::vector<v1::CapturedStep> traced;
  for (const StepItem& item : items) {
    if (item.begin_at == TimePoint()) continue;  // refused before it reached the engine
    const v1::Frame& frame = item.rows.frame;
    v1::CapturedStep& step = traced.emplace_back();
    step.set_session(frame.session());
    step.set_epoch(item.session->terms().epoch);
    step.set_position(frame.position());
    step.set_rows(frame.rows());
    step.set_received_us(MonotonicMicroseconds(item.rows.ready_at));
    step.set_awake_us(MonotonicMicroseconds(item.awake_at));
    step.set_taken_us(MonotonicMicroseconds(item.taken_at));
    step.set_begin_us(MonotonicMicroseconds(item.begin_at));
    step.set_end_us(MonotonicMicroseconds(item.end_at));
    step.set_delivered_us(MonotonicMicroseconds(item.delivered_at));
    for (const StepMark& mark : marks) {
      v1::StepMark* sent = step.add_marks();
      sent->set_part(mark.part);
      sent->set_at_us(MonotonicMicroseconds(mark.at));
    }
  }
  return traced;
}

}  // namespace meshnet
