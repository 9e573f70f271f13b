#include "prompt_budget.h"

#include <algorithm>

#include "protocol_limits.h"

namespace meshnet {
namespace {

// What a new step counts against those before it.
constexpr double kWeightOfNewest = 0.25;
constexpr double kShareOfDecodeStep = 0.9;

double Smoothed(double before, double newest) {
  return before == 0.0 ? newest : before + kWeightOfNewest * (newest - before);
}

}  // namespace

void PromptBudget::Note(bool is_prompt, std::uint32_t rows, std::uint32_t compute_us) {
  if (rows == 0 || compute_us == 0) return;
  if (is_prompt) {
    prompt_rows_per_us_ = Smoothed(prompt_rows_per_us_, static_cast<double>(rows) / compute_us);
  } else {
    decode_us_ = Smoothed(decode_us_, compute_us);
  }
}

std::uint32_t PromptBudget::rows() const {
  if (prompt_rows_per_us_ == 0.0 || decode_us_ == 0.0) return kRowsUnmeasured;
  const double rows = std::min<double>(kShareOfDecodeStep * prompt_rows_per_us_ * decode_us_, kMaxRows);
  return std::max(kRowsMin, static_cast<std::uint32_t>(rows));
}

std::uint32_t PieceRows(std::uint32_t chunk_rows, std::uint32_t budget) {
  const std::uint32_t pieces = (chunk_rows + budget - 1) / budget;
  return (chunk_rows + pieces - 1) / pieces;
}

}  // namespace meshnet
