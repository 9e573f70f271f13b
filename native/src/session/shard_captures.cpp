#include "session/shard_captures.h"

#include <bit>

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

void ShardCaptures::AddSteps(std::vector<v1::CapturedStep>&& traced) {
  for (v1::CapturedStep& step : traced) {
    steps.Add([&step](v1::CapturedStep* captured) { *captured = std::move(step); });
  }
}

}  // namespace meshnet
