// The interactive chunk budget: how many prompt rows a step takes while others wait for their next token.
//
// A prompt chunk that is computed whole holds up everybody who decodes for as long as all of its rows take. While
// somebody decodes, prompt steps and decode steps take turns, and a prompt step is so short that each newcomer costs
// the others less than one more decode step of the whole company: one newcomer at most doubles the time between their
// tokens, and many that come at once do not wait for a few who are served already. What rows take is measured by the
// steps themselves.
// Not thread-safe: owned by a StageMachine.
#ifndef MESHNET_SESSION_PROMPT_BUDGET_H_
#define MESHNET_SESSION_PROMPT_BUDGET_H_

#include <array>
#include <cstdint>

namespace meshnet {

class PromptBudget {
 public:
  // A single row costs a step nearly as much, since the weights are read once a step.
  static constexpr std::uint32_t kRowsMin = 2;
  // Before both kinds of steps were seen.
  static constexpr std::uint32_t kRowsUnmeasured = 4;
  // Steps of more rows count as steps of so many.
  static constexpr std::uint32_t kCompanyMax = 32;

  // A step has ended that held prompt rows or decode rows.
  void Note(bool is_prompt, std::uint32_t rows, std::uint32_t compute_us);

  // Prompt rows of one step while `decoding` sessions wait for tokens and `newcomers` for their prompts, 1 at least;
  // so many that it takes no longer than `longest_us`, but kRowsMin at least.
  std::uint32_t rows(std::uint32_t decoding, std::uint32_t newcomers, double longest_us) const;

 private:
  // Of a step of so many rows; of the most below that were seen, else of the fewest above; 0 where none was.
  double DecodeMicroseconds(std::uint32_t rows) const;

  std::array<double, kCompanyMax + 1> decode_us_{};  // by rows
  double prompt_rows_per_us_ = 0.0;
};

// Rows of a chunk that a step takes where it may take `budget`: the chunk is cut into as few pieces as that allows, all
// but equally long; one that goes a little beyond is not cut. 1 at least; `chunk_rows` and `budget` are positive.
std::uint32_t PieceRows(std::uint32_t chunk_rows, std::uint32_t budget);

}  // namespace meshnet

#endif  // MESHNET_SESSION_PROMPT_BUDGET_H_
