#include "measure/llama_profile.h"

#include <ggml.h>
#include <llama.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace meshnet {
namespace {

constexpr std::string_view kLayerOutput = "l_out-";
constexpr std::string_view kFinalNorm = "result_norm";

// The number of the layer whose output has this name; none if it is the name of another node.
std::optional<int> LayerOf(std::string_view name) {
  if (!name.starts_with(kLayerOutput)) return std::nullopt;
  name.remove_prefix(kLayerOutput.size());
  int layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return layer;
}

}  // namespace

void LlamaProfile::Attach(llama_context_params* params) {
  params->cb_eval = [](ggml_tensor* node, bool ask, void* profile) {
    return static_cast<LlamaProfile*>(profile)->Observe(node, ask);
  };
  params->cb_eval_user_data = this;
}

bool LlamaProfile::Observe(const ggml_tensor* node, bool ask) {
  const std::string_view name = node->name;
  const std::optional<int> layer = LayerOf(name);
  if (ask) {
    if (marks_.empty()) Mark("graph");
    return name == kFinalNorm || (layer.has_value() && (*layer + 1) % kGroupLayers == 0);
  }
  Mark(layer.has_value() ? "layers to " + std::to_string(*layer + 1) : "norm");
  return true;  // go on
}

}  // namespace meshnet
