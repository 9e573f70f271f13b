// Values of a model's GGUF header by name.
#ifndef MESHNET_ENGINE_LLAMA_METADATA_H_
#define MESHNET_ENGINE_LLAMA_METADATA_H_

#include <gguf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshnet {

// A whole number of one of the types that llama.cpp reads figures in; none where there is no such key, or another type.
std::optional<std::uint32_t> FindNumber(const gguf_context* header, const std::string& key);

// The same; of an array, which has one for each layer, the first.
std::optional<std::uint32_t> FindFirstNumber(const gguf_context* header, const std::string& key);

// Empty where there is no such key, or another type.
std::string FindString(const gguf_context* header, const char* key);

// The name as a message may quote it.
std::string Quoted(std::string_view name);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_METADATA_H_
