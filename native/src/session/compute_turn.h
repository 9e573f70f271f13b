// The right to compute on this machine. A turn held for each step makes workers that share its cores alternate; what
// that is worth is in docs/adr/0005-compute-turn.md. This is the seam: NoTurn is for a worker alone, MachineTurn for
// workers that share a machine.
#ifndef MESHNET_SESSION_COMPUTE_TURN_H_
#define MESHNET_SESSION_COMPUTE_TURN_H_

#include <chrono>

namespace meshnet {

// Compute thread only.
class ComputeTurn {
 public:
  virtual ~ComputeTurn() = default;

  // Waits for the turn, until `deadline` at the latest. False where it did not come in time: nothing is held then.
  // The wait belongs to the time that rows spend in the queue.
  [[nodiscard]] virtual bool Begin(std::chrono::steady_clock::time_point deadline) = 0;

  // Whether the last Begin had to wait for somebody else on this machine.
  virtual bool has_waited() const = 0;

  // Gives back what Begin gave; nothing where nothing is held.
  virtual void End() = 0;

  // Tells the machine's other workers whether somebody waits for the next token of this one. Cheap to repeat.
  virtual void TellDecoding(bool is_decoding) = 0;

  // Whether somebody waits for the next token of another worker.
  virtual bool OthersDecode() const = 0;
};

class NoTurn : public ComputeTurn {
 public:
  bool Begin(std::chrono::steady_clock::time_point /*deadline*/) override { return true; }
  bool has_waited() const override { return false; }
  void End() override {}
  void TellDecoding(bool /*is_decoding*/) override {}
  bool OthersDecode() const override { return false; }
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_COMPUTE_TURN_H_
