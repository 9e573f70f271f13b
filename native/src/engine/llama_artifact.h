// Facts of a GGUF file's header, read before llama.cpp opens the file, so that a bad file is a typed error.
#ifndef MESHNET_ENGINE_LLAMA_ARTIFACT_H_
#define MESHNET_ENGINE_LLAMA_ARTIFACT_H_

#include <cstdint>
#include <string>

#include "wire/status.h"

namespace meshnet {

struct LlamaArtifact {
  std::string architecture;
  std::uint32_t n_layers = 0;        // without layers that only draft tokens
  std::uint32_t context_length = 0;  // positions that the model was trained with
  std::uint32_t embedding_width = 0;
  std::uint32_t n_parts = 1;
  std::uint32_t token_id_layers_end = 0;  // layers from here on work without the rows' token ids
  std::uint64_t nextn_bytes = 0;          // bytes of the tail's blocks that draft tokens
};

// Reads the header of the first part and checks that every part holds the tensors that its header names. kFileMissing,
// kNotGguf, kTruncated, kUnsupportedArchitecture (the message names the architecture).
Result<LlamaArtifact> InspectArtifact(const std::string& path);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_ARTIFACT_H_
