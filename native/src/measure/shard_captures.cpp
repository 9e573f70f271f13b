#include "measure/shard_captures.h"

#include <bit>

#include "measure/step_trace.h"

namespace meshnet {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are given out as they lie in memory");

}  // namespace

void ShardCaptures::AddLogits(const SessionTerms& terms, std::uint64_t position, std::span<const float> row) {
  logits.Add([&](v1::CapturedLogits* captured) {
    captured->set_session(ToBytes(terms.session));
    captured->set_epoch(terms.epoch);
    captured->set_position(position);
    captured->set_logits(row.data(), row.size_bytes());
  });
}

void ShardCaptures::AddStep(std::span<const StepItem> items, std::span<const StepMark> marks) {
  if (steps.is_running()) traced = TraceSteps(items, marks);
}

void ShardCaptures::StepSent(TimePoint at) {
  for (v1::CapturedStep& step : traced) {
    step.set_sent_us(MonotonicMicroseconds(at));
    steps.Add([&step](v1::CapturedStep* captured) { *captured = std::move(step); });
  }
  traced.clear();
}

}  // namespace meshnet
