// Refuses models that llama.cpp loads but cannot compute with because of a number in their header or a tensor's type: a
// step would fail an assertion on a thread that cannot catch the exception, or never end. Source:
// ggml/src/ggml-cpu/ops.cpp (norms and rotations), src/models/deepseek4.cpp.
#ifndef MESHNET_ENGINE_LLAMA_FIGURES_H_
#define MESHNET_ENGINE_LLAMA_FIGURES_H_

#include <gguf.h>

#include <string>

#include "wire/status.h"

namespace meshnet {

// Checks the numbers in a model's metadata. kNotGguf if a step could not compute with one; the message names its key.
Status CheckFigures(const gguf_context* header, const std::string& architecture);

// Checks the types of the tensors in one file of a model. kNotGguf if a step could not compute with one; the message
// names the tensor.
Status CheckTensorTypes(const gguf_context* header);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_FIGURES_H_
