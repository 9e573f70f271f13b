// The prompt budget: how many prompt rows a step takes while other sessions wait for their next token.
//
// If a prompt chunk is computed whole, every decoding session waits until all of its rows are done. So while a session
// decodes, prompt steps alternate with decode steps and are short. If n sessions have a new prompt, a prompt step and
// the decode step after it take together less time than 1 + n decode steps of all sessions, the n included. So during
// one new prompt, the time between the others' tokens is at most twice the time once that session decodes too. With
// many new prompts, prompt steps are longer, so that these prompts do not wait for a few decoding sessions. The time
// that rows take is measured from the steps themselves. Not thread-safe: owned by a StageMachine.
#ifndef MESHNET_SESSION_PROMPT_BUDGET_H_
#define MESHNET_SESSION_PROMPT_BUDGET_H_

#include <array>
#include <cstdint>

namespace meshnet {

class PromptBudget {
 public:
  // The smallest budget. A step of one row takes nearly as long as a step of two, since each step reads all weights
  // once.
  static constexpr std::uint32_t kRowsMin = 2;
  // The budget until a prompt step and a decode step were measured.
  static constexpr std::uint32_t kRowsUnmeasured = 4;
  // Decode steps of more rows than this are recorded as steps of this many.
  static constexpr std::uint32_t kCompanyMax = 32;

  // Records how long a step took in the engine; it held prompt rows only or decode rows only.
  void Note(bool is_prompt, std::uint32_t rows, std::uint32_t compute_us);

  // Number of prompt rows in the next step while `decoding` sessions wait for tokens and `newcomers` sessions (at least
  // 1) wait for their prompts to be computed: as many as take about `longest_us` microseconds at most, but at least
  // kRowsMin.
  std::uint32_t rows(std::uint32_t decoding, std::uint32_t newcomers, double longest_us) const;

 private:
  // Microseconds of a decode step of `rows` rows. If no such step was measured, the time of the nearest smaller number
  // of rows, or else of the nearest larger one; 0 if no decode step was measured.
  double DecodeMicroseconds(std::uint32_t rows) const;

  std::array<double, kCompanyMax + 1> decode_us_{};  // index: the rows of the step
  double prompt_rows_per_us_ = 0.0;
};

// Number of rows that a step takes from a chunk of `chunk_rows` rows if its budget is `budget` rows (both positive).
// The chunk is cut into as few pieces as the budget allows, of nearly equal length. A chunk that exceeds the budget by
// a quarter or less is not cut. The result is at least 1.
std::uint32_t PieceRows(std::uint32_t chunk_rows, std::uint32_t budget);

}  // namespace meshnet

#endif  // MESHNET_SESSION_PROMPT_BUDGET_H_
