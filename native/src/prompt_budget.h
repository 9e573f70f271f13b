// The interactive chunk budget: how many prompt rows a step takes while others wait for their next token.
//
// A prompt chunk that is computed whole holds up everybody who decodes for as long as all of its rows take. While
// somebody decodes, chunks are computed in pieces that take a little less than a decode step, so that with everything
// around it a newcomer at most doubles the time between the others' tokens. What rows take is measured by the steps
// themselves.
// Not thread-safe: owned by a StageMachine.
#ifndef MESHNET_PROMPT_BUDGET_H_
#define MESHNET_PROMPT_BUDGET_H_

#include <cstdint>

namespace meshnet {

class PromptBudget {
 public:
  // A single row costs a step nearly as much, since the weights are read once a step.
  static constexpr std::uint32_t kRowsMin = 2;
  // Before both kinds of steps were seen.
  static constexpr std::uint32_t kRowsUnmeasured = 4;

  // A step has ended that held prompt rows or decode rows.
  void Note(bool is_prompt, std::uint32_t rows, std::uint32_t compute_us);

  // Prompt rows that take nine tenths of a decode step, kRowsMin at least.
  std::uint32_t rows() const;

 private:
  double decode_us_ = 0.0;
  double prompt_rows_per_us_ = 0.0;
};

// Rows of a chunk that a step takes where it may take `budget`: the chunk is cut into as few pieces as that allows, all
// but equally long. 1 at least; `chunk_rows` and `budget` are positive.
std::uint32_t PieceRows(std::uint32_t chunk_rows, std::uint32_t budget);

}  // namespace meshnet

#endif  // MESHNET_PROMPT_BUDGET_H_
