#include "shard_captures.h"

#include <bit>

namespace meshnet {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are given out as they lie in memory");

// Of the machine's monotonic clock, which all of its processes share.
std::uint64_t Microseconds(TimePoint at) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count());
}

}  // namespace

void ShardCaptures::AddLogits(const SessionTerms& terms, std::uint64_t position, std::span<const float> row) {
  logits.Add([&](v1::CapturedLogits* captured) {
    captured->set_session(ToBytes(terms.session));
    captured->set_epoch(terms.epoch);
    captured->set_position(position);
    captured->set_logits(row.data(), row.size_bytes());
  });
}

void ShardCaptures::AddStep(const SessionTerms& terms, const v1::Frame& frame, TimePoint begin, TimePoint end) {
  steps.Add([&](v1::CapturedStep* captured) {
    captured->set_session(ToBytes(terms.session));
    captured->set_epoch(terms.epoch);
    captured->set_position(frame.position());
    captured->set_rows(frame.rows());
    captured->set_begin_us(Microseconds(begin));
    captured->set_end_us(Microseconds(end));
  });
}

}  // namespace meshnet
