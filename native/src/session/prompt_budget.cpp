#include "session/prompt_budget.h"

#include <algorithm>
#include <iterator>

#include "wire/protocol_limits.h"

namespace meshnet {
namespace {

// Weight of the newest step in the moving average of step times.
constexpr double kWeightOfNewest = 0.25;
// Fraction of the time of a decode step of all sessions that is not given to prompts, but left for the work between
// steps.
constexpr double kAround = 0.1;
// A chunk that exceeds the budget by no more than a quarter (1 / kMorePart) of it is not cut: the rest is not worth a
// pass over the weights of its own.
constexpr std::uint32_t kMorePart = 4;

double Smoothed(double before, double newest) {
  return before == 0.0 ? newest : before + kWeightOfNewest * (newest - before);
}

}  // namespace

void PromptBudget::Note(bool is_prompt, std::uint32_t rows, std::uint32_t compute_us) {
  if (rows == 0 || compute_us == 0) return;
  if (is_prompt) {
    prompt_rows_per_us_ = Smoothed(prompt_rows_per_us_, static_cast<double>(rows) / compute_us);
  } else {
    double& decode_us = decode_us_[std::min(rows, kCompanyMax)];
    decode_us = Smoothed(decode_us, compute_us);
  }
}

double PromptBudget::DecodeMicroseconds(std::uint32_t rows) const {
  const auto above = decode_us_.begin() + std::min(rows, kCompanyMax) + 1;
  const auto is_seen = [](double decode_us) { return decode_us > 0.0; };
  const auto below = std::find_if(std::make_reverse_iterator(above), decode_us_.rend(), is_seen);
  if (below != decode_us_.rend()) return *below;
  const auto next = std::find_if(above, decode_us_.end(), is_seen);
  return next == decode_us_.end() ? 0.0 : *next;
}

std::uint32_t PromptBudget::rows(std::uint32_t decoding, std::uint32_t newcomers, double longest_us) const {
  const double decode_us = DecodeMicroseconds(decoding);
  double company_us = DecodeMicroseconds(decoding + newcomers);
  if (prompt_rows_per_us_ == 0.0 || company_us == 0.0) return kRowsUnmeasured;
  // The step of all sessions may have been measured long ago, so a newer time limits it: with more rows in a step, the
  // time for each row never grows.
  if (decoding > 0) company_us = std::min(company_us, decode_us * (decoding + newcomers) / decoding);
  const double both_us = (1.0 + newcomers - kAround) * company_us;
  const double prompt_us = std::clamp(both_us - decode_us, 0.0, longest_us);
  const double rows = std::min<double>(prompt_rows_per_us_ * prompt_us, kMaxRows);
  return std::max(kRowsMin, static_cast<std::uint32_t>(rows));
}

std::uint32_t PieceRows(std::uint32_t chunk_rows, std::uint32_t budget) {
  if (chunk_rows - std::min(budget, chunk_rows) <= budget / kMorePart) return chunk_rows;
  const std::uint32_t pieces = (chunk_rows + budget - 1) / budget;
  return (chunk_rows + pieces - 1) / pieces;
}

}  // namespace meshnet
