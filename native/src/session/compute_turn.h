// The right to compute on this machine. If workers that share its cores take a turn for each step, their steps
// alternate; docs/adr/0005-compute-turn.md gives the gain. A worker alone uses NoTurn; workers that share a machine use
// MachineTurn.
#ifndef MESHNET_SESSION_COMPUTE_TURN_H_
#define MESHNET_SESSION_COMPUTE_TURN_H_

#include <chrono>

namespace meshnet {

// Compute thread only.
class ComputeTurn {
 public:
  virtual ~ComputeTurn() = default;

  // Waits for the turn until `deadline`. If the turn does not come in time, returns false and holds nothing. The wait
  // counts as time that rows spend in the queue.
  [[nodiscard]] virtual bool Begin(std::chrono::steady_clock::time_point deadline) = 0;

  // Whether the last Begin had to wait for another worker of this machine.
  virtual bool has_waited() const = 0;

  // Gives back the turn; does nothing if it is not held.
  virtual void End() = 0;

  // Tells the machine's other workers whether a session of this one is decoding. Cheap to repeat.
  virtual void TellDecoding(bool is_decoding) = 0;

  // Whether a session of another worker is decoding.
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
