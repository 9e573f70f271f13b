// Values of a model's GGUF header by name.
#ifndef MESHNET_LLAMA_METADATA_H_
#define MESHNET_LLAMA_METADATA_H_

#include <gguf.h>

#include <cstdint>
#include <optional>
#include <string>

namespace meshnet {

// A whole number of 16 bits or more; none where there is no such key, or another type.
std::optional<std::uint64_t> FindNumber(const gguf_context* header, const std::string& key);

// Empty where there is no such key, or another type.
std::string FindString(const gguf_context* header, const char* key);

}  // namespace meshnet

#endif  // MESHNET_LLAMA_METADATA_H_
