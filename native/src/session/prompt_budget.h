// The interactive chunk budget: how many prompt rows a step takes while other sessions wait for their next token.
//
// A prompt chunk that is computed whole holds up every decoding session until all of its rows are done. So while a
// session decodes, prompt steps and decode steps take turns, and a prompt step is short: each new prompt costs the
// others less than one more decode step of all sessions together. One new prompt at most doubles the time between their
// tokens, and if many prompts come at once, they do not wait for a few sessions that are served already. The time that
// rows take is measured from the steps themselves. Not thread-safe: owned by a StageMachine.
#ifndef MESHNET_SESSION_PROMPT_BUDGET_H_
#define MESHNET_SESSION_PROMPT_BUDGET_H_

#include <array>
#include <cstdint>

namespace meshnet {

class PromptBudget {
 public:
  // A single row costs a step nearly as much as two, since the weights are read once a step.
  static constexpr std::uint32_t kRowsMin = 2;
  // Used until both kinds of steps were measured.
  static constexpr std::uint32_t kRowsUnmeasured = 4;
  // Steps of more rows count as steps of this many.
  static constexpr std::uint32_t kCompanyMax = 32;

  // A step of prompt rows or decode rows has ended.
  void Note(bool is_prompt, std::uint32_t rows, std::uint32_t compute_us);

  // Prompt rows of one step while `decoding` sessions wait for tokens and `newcomers` (at least 1) for their prompts:
  // as many as take no longer than `longest_us`, but at least kRowsMin.
  std::uint32_t rows(std::uint32_t decoding, std::uint32_t newcomers, double longest_us) const;

 private:
  // Microseconds of a decode step of `rows` rows: of the nearest measured number below, else of the nearest above; 0 if
  // no decode step was measured.
  double DecodeMicroseconds(std::uint32_t rows) const;

  std::array<double, kCompanyMax + 1> decode_us_{};  // by rows
  double prompt_rows_per_us_ = 0.0;
};

// Rows that a step takes of a chunk if its budget is `budget` rows. The chunk is cut into as few pieces as the budget
// allows, all but equally long; a chunk that is only a little longer is not cut. At least 1; `chunk_rows` and `budget`
// are positive.
std::uint32_t PieceRows(std::uint32_t chunk_rows, std::uint32_t budget);

}  // namespace meshnet

#endif  // MESHNET_SESSION_PROMPT_BUDGET_H_
