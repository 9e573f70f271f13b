// The right to compute on this machine. Two workers that compute at once on the same cores slow each other down far
// more than twofold; a turn held for each step makes them alternate. This is the seam: NoTurn is for a worker alone.
#ifndef MESHNET_COMPUTE_TURN_H_
#define MESHNET_COMPUTE_TURN_H_

namespace meshnet {

class ComputeTurn {
 public:
  virtual ~ComputeTurn() = default;

  // Compute thread only. Waits for the turn; the wait belongs to the step's residence.
  virtual void Begin() = 0;
  virtual void End() = 0;
};

class NoTurn : public ComputeTurn {
 public:
  void Begin() override {}
  void End() override {}
};

}  // namespace meshnet

#endif  // MESHNET_COMPUTE_TURN_H_
