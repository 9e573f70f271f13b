// Facts of a GGUF file's header, read before llama.cpp opens the file, so that the refusal of a bad file has a code
// that says why.
#ifndef MESHNET_ENGINE_LLAMA_ARTIFACT_H_
#define MESHNET_ENGINE_LLAMA_ARTIFACT_H_

#include <cstdint>
#include <string>

#include "wire/status.h"

namespace meshnet {

struct LlamaArtifact {
  std::string architecture;
  std::uint32_t n_layers = 0;        // without the layers that only draft tokens
  std::uint32_t context_length = 0;  // positions that the model was trained with
  std::uint32_t embedding_width = 0;
  std::uint32_t n_parts = 1;              // files that the model is split into
  std::uint32_t token_id_layers_end = 0;  // this layer and all later ones need no token ids of the rows
  std::uint64_t nextn_bytes = 0;          // bytes of the blocks that draft tokens; they follow the last layer
};

// Reads the header of a GGUF file, or of the first part of a split one, and checks that every part is long enough for
// the tensors that its header names. Fails with kFileMissing, kNotGguf, kTruncated, or kUnsupportedArchitecture, whose
// message names the architecture.
Result<LlamaArtifact> InspectArtifact(const std::string& path);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_ARTIFACT_H_
