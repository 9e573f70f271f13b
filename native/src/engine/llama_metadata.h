// Looks up values in a GGUF file's header by their keys.
#ifndef MESHNET_ENGINE_LLAMA_METADATA_H_
#define MESHNET_ENGINE_LLAMA_METADATA_H_

#include <gguf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshnet {

// The number under `key`; none if the key is missing or its type is neither u16 nor u32.
std::optional<std::uint32_t> FindNumber(const gguf_context* header, const std::string& key);

// As FindNumber; but if the value is an array, which has one number for each layer, its first number.
std::optional<std::uint32_t> FindFirstNumber(const gguf_context* header, const std::string& key);

// The string under `key`; empty if the key is missing or has another type.
std::string FindString(const gguf_context* header, const char* key);

// The first 64 characters of a name in double quotes, for a message; `?` stands for each that cannot be printed.
std::string Quoted(std::string_view name);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_METADATA_H_
