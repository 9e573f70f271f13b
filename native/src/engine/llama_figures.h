// Figures of a model that llama.cpp loads but cannot compute with: its steps fail an assertion on threads that cannot
// catch it, or never end. Source: ggml/src/ggml-cpu/ops.cpp (norms and rotations), src/models/deepseek4.cpp.
#ifndef MESHNET_ENGINE_LLAMA_FIGURES_H_
#define MESHNET_ENGINE_LLAMA_FIGURES_H_

#include <gguf.h>

#include <string>

#include "wire/status.h"

namespace meshnet {

// Checks a model's metadata. kNotGguf, with the figure's name.
Status CheckFigures(const gguf_context* header, const std::string& architecture);

// Checks the tensors of one part for types that no step can compute with. kNotGguf, with the tensor's name.
Status CheckTensorTypes(const gguf_context* header);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_FIGURES_H_
