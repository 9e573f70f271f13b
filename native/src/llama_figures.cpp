#include "llama_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "llama_metadata.h"

namespace meshnet {
namespace {

constexpr std::uint64_t kMaxWindow = 1u << 24;  // positions; more than any context
constexpr std::uint64_t kMaxSinkhornIterations = 1024;
constexpr std::size_t kMaxSections = 4;

Status Wrong(const std::string& key) { return {Code::kNotGguf, "nothing can be computed with the model's " + key}; }

Status CheckEpsilons(const gguf_context* header) {
  for (std::int64_t id = 0; id < gguf_get_n_kv(header); ++id) {
    const std::string_view key = gguf_get_key(header, id);
    if (!key.ends_with("epsilon") || gguf_get_kv_type(header, id) != GGUF_TYPE_FLOAT32) continue;
    const float epsilon = gguf_get_val_f32(header, id);
    if (!std::isfinite(epsilon) || epsilon < 0) return Wrong("epsilon");
  }
  return Status::Ok();
}

// Elements that are rotated in pairs, of a head that has so many.
Status CheckRotation(const gguf_context* header, const std::string& key, std::uint64_t head_width) {
  const std::optional<std::uint64_t> rotated = FindNumber(header, key);
  if (!rotated.has_value()) return Status::Ok();
  return *rotated > 0 && *rotated % 2 == 0 && *rotated <= head_width ? Status::Ok() : Wrong(key);
}

// How many pairs of a head are rotated by each of a position's parts.
Status CheckSections(const gguf_context* header, const std::string& key, std::uint64_t head_width) {
  const std::int64_t id = gguf_find_key(header, key.c_str());
  if (id < 0 || gguf_get_kv_type(header, id) != GGUF_TYPE_ARRAY) return Status::Ok();
  const gguf_type type = gguf_get_arr_type(header, id);
  if (type != GGUF_TYPE_INT32 && type != GGUF_TYPE_UINT32) return Wrong(key);
  std::int32_t sections[kMaxSections] = {};
  const std::size_t count = gguf_get_arr_n(header, id);
  if (count == 0 || count > kMaxSections) return Wrong(key);
  std::memcpy(sections, gguf_get_arr_data(header, id), count * sizeof(sections[0]));
  std::uint64_t pairs = 0;
  for (const std::int32_t section : sections) {
    if (section < 0) return Wrong(key);
    pairs += static_cast<std::uint64_t>(section);
  }
  const bool has_positions = sections[0] > 0 || sections[1] > 0 || sections[2] > 0;
  return has_positions && pairs <= head_width ? Status::Ok() : Wrong(key);
}

}  // namespace

Status CheckFigures(const gguf_context* header, const std::string& architecture) {
  const auto key = [&](const char* suffix) { return architecture + "." + suffix; };
  const auto number = [&](const char* suffix, std::uint64_t fallback) {
    return FindNumber(header, key(suffix)).value_or(fallback);
  };
  const std::uint64_t heads = std::max<std::uint64_t>(1, number("attention.head_count", 1));
  const std::uint64_t width = number("attention.key_length", number("embedding_length", 0) / heads);
  const std::uint64_t window_width = number("attention.key_length_swa", width);
  for (const Status& status : {
           CheckEpsilons(header),
           CheckRotation(header, key("rope.dimension_count"), width),
           CheckRotation(header, key("rope.dimension_count_swa"), window_width),
           CheckSections(header, key("rope.dimension_sections"), width),
       }) {
    if (!status.ok()) return status;
  }
  if (number("attention.sliding_window", 0) > kMaxWindow) return Wrong(key("attention.sliding_window"));
  if (number("hyper_connection.sinkhorn_iterations", 0) > kMaxSinkhornIterations) {
    return Wrong(key("hyper_connection.sinkhorn_iterations"));
  }
  const std::uint64_t drafting = number("nextn_predict_layers", 0);
  if (drafting > 0 && drafting >= number("block_count", 0)) return Wrong(key("nextn_predict_layers"));
  // The loader divides by these.
  for (const char* divisor : {"full_attention_interval", "attention.output_group_count"}) {
    if (number(divisor, 1) == 0) return Wrong(key(divisor));
  }
  return Status::Ok();
}

Status CheckTensorTypes(const gguf_context* header) {
  for (std::int64_t i = 0; i < gguf_get_n_tensors(header); ++i) {
    const std::string_view name = gguf_get_tensor_name(header, i);
    if (name.ends_with("exps.bias") && gguf_get_tensor_type(header, i) != GGML_TYPE_F32)
      return Wrong("experts' biases");
  }
  return Status::Ok();
}

}  // namespace meshnet
