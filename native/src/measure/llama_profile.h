// Records when the parts of a step end, by llama.cpp's evaluation callback: the building of the graph, each group of
// layers, and the norm before the output head. With the callback, llama.cpp computes a graph piece by piece, which
// costs a few wake-ups of the engine's threads. So a load makes a profile only if a benchmark asks for it. Compute
// thread only. Must outlive the llama_context that it is attached to.
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
  // Number of layers in a group. The end of each group is one mark.
  static constexpr int kGroupLayers = 5;

  void Attach(llama_context_params* params) override;
  void Begin() override { marks_.clear(); }
  void Mark(std::string part) override { marks_.push_back({std::move(part), std::chrono::steady_clock::now()}); }
  std::span<const StepMark> marks() const override { return marks_; }

 private:
  // Called by llama.cpp. Before a node of the graph is computed, `ask` is true, and the answer says whether to observe
  // the node. Once an observed node is computed, `ask` is false, and the answer is whether to go on.
  bool Observe(const ggml_tensor* node, bool ask);

  std::vector<StepMark> marks_;
};

}  // namespace meshnet

#endif  // MESHNET_MEASURE_LLAMA_PROFILE_H_
