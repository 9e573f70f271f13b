#include "llama_metadata.h"

namespace meshnet {

std::optional<std::uint64_t> FindNumber(const gguf_context* header, const std::string& key) {
  const std::int64_t id = gguf_find_key(header, key.c_str());
  if (id < 0) return std::nullopt;
  switch (gguf_get_kv_type(header, id)) {
    case GGUF_TYPE_UINT16:
      return gguf_get_val_u16(header, id);
    case GGUF_TYPE_UINT32:
      return gguf_get_val_u32(header, id);
    case GGUF_TYPE_UINT64:
      return gguf_get_val_u64(header, id);
    case GGUF_TYPE_INT32:
      return static_cast<std::uint64_t>(gguf_get_val_i32(header, id));
    default:
      return std::nullopt;
  }
}

std::string FindString(const gguf_context* header, const char* key) {
  const std::int64_t id = gguf_find_key(header, key);
  if (id < 0 || gguf_get_kv_type(header, id) != GGUF_TYPE_STRING) return {};
  return gguf_get_val_str(header, id);
}

}  // namespace meshnet
