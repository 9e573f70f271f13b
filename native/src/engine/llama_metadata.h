// Values of a model's GGUF header by name.
#ifndef MESHNET_ENGINE_LLAMA_METADATA_H_
#define MESHNET_ENGINE_LLAMA_METADATA_H_

#include <gguf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshnet {

// A whole number of a type that llama.cpp reads figures in; none if the key is missing or has another type.
std::optional<std::uint32_t> FindNumber(const gguf_context* header, const std::string& key);

// The same; if the value is an array with one number for each layer, the first.
std::optional<std::uint32_t> FindFirstNumber(const gguf_context* header, const std::string& key);

// Empty if the key is missing or has another type.
std::string FindString(const gguf_context* header, const char* key);

// The name, quoted for a message.
std::string Quoted(std::string_view name);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_METADATA_H_
