// Figures of a model that llama.cpp loads and cannot compute with: its steps assert them, on threads where nobody could
// catch it, or do not end. Source: ggml/src/ggml-cpu/ops.cpp (norms and rotations), src/models/deepseek4.cpp.
#ifndef MESHNET_ENGINE_LLAMA_FIGURES_H_
#define MESHNET_ENGINE_LLAMA_FIGURES_H_

#include <gguf.h>

#include <string>

#include "wire/status.h"

namespace meshnet {

// Of a model's metadata. kNotGguf, and the figure's name.
Status CheckFigures(const gguf_context* header, const std::string& architecture);

// Of the tensors of one part: types that no step computes with. kNotGguf, and the tensor's
// name.
Status CheckTensorTypes(const gguf_context* header);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_FIGURES_H_
