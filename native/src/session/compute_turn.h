// The compute turn: the right to use this machine's cores for a step. Workers that share the cores take the turn for
// each step, so that they compute one after the other; docs/adr/0005-compute-turn.md gives the gain. A worker alone
// uses NoTurn; workers that share a machine use MachineTurn.
#ifndef MESHNET_SESSION_COMPUTE_TURN_H_
#define MESHNET_SESSION_COMPUTE_TURN_H_

#include <chrono>

namespace meshnet {

// One worker's access to the compute turn. Called on the compute thread only.
class ComputeTurn {
 public:
  virtual ~ComputeTurn() = default;

  // Waits for the turn until `deadline`. If the turn does not come in time, returns false and holds nothing. The wait
  // counts as queue time of the rows.
  [[nodiscard]] virtual bool Begin(std::chrono::steady_clock::time_point deadline) = 0;

  // Whether the last Begin had to wait for another worker of this machine.
  virtual bool has_waited() const = 0;

  // Gives the turn back; does nothing if it is not held.
  virtual void End() = 0;

  // Tells the machine's other workers whether a session of this worker is decoding. Cheap if nothing has changed.
  virtual void TellDecoding(bool is_decoding) = 0;

  // Whether a session of another worker of this machine is decoding.
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
