#include "engine/llama_metadata.h"

#include <algorithm>

namespace meshnet {

std::optional<std::uint32_t> FindNumber(const gguf_context* header, const std::string& key) {
  const std::int64_t id = gguf_find_key(header, key.c_str());
  if (id < 0) return std::nullopt;
  switch (gguf_get_kv_type(header, id)) {
    case GGUF_TYPE_UINT16:
      return gguf_get_val_u16(header, id);
    case GGUF_TYPE_UINT32:
      return gguf_get_val_u32(header, id);
    default:
      return std::nullopt;
  }
}

std::optional<std::uint32_t> FindFirstNumber(const gguf_context* header, const std::string& key) {
  const std::int64_t id = gguf_find_key(header, key.c_str());
  if (id < 0 || gguf_get_kv_type(header, id) != GGUF_TYPE_ARRAY) return FindNumber(header, key);
  const gguf_type type = gguf_get_arr_type(header, id);
  if ((type != GGUF_TYPE_UINT32 && type != GGUF_TYPE_INT32) || gguf_get_arr_n(header, id) == 0) return std::nullopt;
  return *static_cast<const std::uint32_t*>(gguf_get_arr_data(header, id));
}

std::string FindString(const gguf_context* header, const char* key) {
  const std::int64_t id = gguf_find_key(header, key);
  if (id < 0 || gguf_get_kv_type(header, id) != GGUF_TYPE_STRING) return {};
  return gguf_get_val_str(header, id);
}

std::string Quoted(std::string_view name) {
  std::string quoted(name.substr(0, 64));
  std::replace_if(quoted.begin(), quoted.end(), [](char letter) { return letter < 0x20 || letter > 0x7e; }, '?');
  return "\"" + quoted + "\"";
}

}  // namespace meshnet
