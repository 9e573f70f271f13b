// Times at which the parts of a step ended, from llama.cpp's evaluation callback: the graph ready, groups of layers
// done, the norm before the head done. A watched graph is computed piece by piece, which costs a few wake-ups of the
// engine's threads, so it is off unless a benchmark asks for it. Compute thread only. Must outlive the context that it
// is attached to.
#ifndef MESHNET_MEASURE_LLAMA_PROFILE_H_
#define MESHNET_MEASURE_LLAMA_PROFILE_H_

#include <span>
#include <string>
#include <vector>

#include "engine/step_profile.h"

struct ggml_tensor;

namespace meshnet {

class LlamaProfile : public StepProfile {
 public:
  // Number of layers in a group, which has one mark.
  static constexpr int kGroupLayers = 5;

  void Attach(llama_context_params* params) override;
  void Begin() override { marks_.clear(); }
  void Mark(std::string part) override { marks_.push_back({std::move(part), std::chrono::steady_clock::now()}); }
  std::span<const StepMark> marks() const override { return marks_; }

 private:
  // llama.cpp asks before each node (`ask`) whether to observe it, and calls again once an observed node is computed.
  bool Observe(const ggml_tensor* node, bool ask);

  std::vector<StepMark> marks_;
};

}  // namespace meshnet

#endif  // MESHNET_MEASURE_LLAMA_PROFILE_H_
