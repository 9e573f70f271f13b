#include "engine/llama_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/llama_metadata.h"

namespace meshnet {
namespace {

constexpr std::uint32_t kMaxWindow = 1u << 24;  // llama.cpp multiplies a window by the number of sequences in 32 bits
// Bounded because each iteration adds nodes to the graph of every layer.
constexpr std::uint32_t kMaxSinkhornIterations = 1024;
constexpr std::size_t kMaxSections = 4;

Status Wrong(std::string_view name) {
  return {Code::kNotGguf, "no model can be computed with this file's " + Quoted(name)};
}

// Looks up numbers in a model's header. The caller names a key without the architecture's prefix (`block_count`); the
// prefix (`llama.`) is added here.
struct Figures {
  const gguf_context* header;
  const std::string& architecture;

  std::string Key(const char* name) const { return architecture + "." + name; }
  std::uint32_t Number(const char* name, std::uint32_t fallback) const {
    return FindNumber(header, Key(name)).value_or(fallback);
  }
};

Status CheckEpsilons(const gguf_context* header) {
  for (std::int64_t id = 0; id < gguf_get_n_kv(header); ++id) {
    const std::string_view key = gguf_get_key(header, id);
    if (!key.ends_with("epsilon") || gguf_get_kv_type(header, id) != GGUF_TYPE_FLOAT32) continue;
    const float epsilon = gguf_get_val_f32(header, id);
    if (!std::isfinite(epsilon) || epsilon < 0) return Wrong(key);
  }
  return Status::Ok();
}

// Whether rope can rotate `rotated` of a head's `head_width` elements, in pairs.
bool CanRotate(std::uint32_t rotated, std::uint32_t head_width) {
  return rotated > 0 && rotated % 2 == 0 && rotated <= head_width;
}

// Checks the array under `key`: how many pairs of a head's elements are rotated by each part of a position.
Status CheckSections(const gguf_context* header, const std::string& key, std::uint32_t head_width) {
  const std::int64_t id = gguf_find_key(header, key.c_str());
  if (id < 0) return Status::Ok();
  if (gguf_get_kv_type(header, id) != GGUF_TYPE_ARRAY) return Wrong(key);
  const gguf_type type = gguf_get_arr_type(header, id);
  const std::size_t count = gguf_get_arr_n(header, id);
  if ((type != GGUF_TYPE_INT32 && type != GGUF_TYPE_UINT32) || count == 0 || count > kMaxSections) return Wrong(key);
  std::array<std::int32_t, kMaxSections> sections{};
  std::memcpy(sections.data(), gguf_get_arr_data(header, id), count * sizeof(sections[0]));
  std::uint64_t pairs = 0;
  for (const std::int32_t section : sections) {
    if (section < 0) return Wrong(key);
    pairs += static_cast<std::uint64_t>(section);
  }
  const bool has_positions = sections[0] > 0 || sections[1] > 0 || sections[2] > 0;
  return has_positions && pairs <= head_width ? Status::Ok() : Wrong(key);
}

Status CheckRotations(const Figures& figures) {
  const std::uint32_t heads = FindFirstNumber(figures.header, figures.Key("attention.head_count")).value_or(1);
  const std::uint32_t width =
      figures.Number("attention.key_length", figures.Number("embedding_length", 0) / std::max<std::uint32_t>(1, heads));
  const std::uint32_t rotated = figures.Number("rope.dimension_count", width);
  if (!CanRotate(rotated, width)) return Wrong(figures.Key("rope.dimension_count"));
  // Layers with sliding windows use the numbers of the other layers if the header has none for them.
  if (!CanRotate(figures.Number("rope.dimension_count_swa", rotated),
                 figures.Number("attention.key_length_swa", width))) {
    return Wrong(figures.Key("rope.dimension_count_swa"));
  }
  return CheckSections(figures.header, figures.Key("rope.dimension_sections"), width);
}

// Whether a tensor must be stored as F32. That holds for all tensors that are not weight matrices: those that are
// added, multiplied elementwise or convolved.
bool IsF32Alone(std::string_view tensor) {
  if (!tensor.ends_with(".weight")) return true;
  for (const char* suffix :
       {"norm.weight", "_base.weight", "_scale.weight", "attn_sinks.weight", "ssm_conv1d.weight"}) {
    if (tensor.ends_with(suffix)) return true;
  }
  return tensor.starts_with("rope_");
}

// Whether a tensor has a type by which no row can be multiplied. I32 is allowed in tables of indices.
bool IsNoWeight(std::string_view tensor, ggml_type type) {
  switch (type) {
    case GGML_TYPE_I8:
    case GGML_TYPE_I16:
    case GGML_TYPE_I64:
    case GGML_TYPE_F64:
      return true;
    case GGML_TYPE_I32:
      return !tensor.ends_with("ffn_gate_tid2eid.weight");
    default:
      return false;
  }
}

}  // namespace

Status CheckFigures(const gguf_context* header, const std::string& architecture) {
  const Figures figures{header, architecture};
  Status status = CheckEpsilons(header);
  if (status.ok()) status = CheckRotations(figures);
  if (!status.ok()) return status;
  if (figures.Number("attention.sliding_window", 0) > kMaxWindow) return Wrong(figures.Key("attention.sliding_window"));
  if (figures.Number("hyper_connection.sinkhorn_iterations", 0) > kMaxSinkhornIterations) {
    return Wrong(figures.Key("hyper_connection.sinkhorn_iterations"));
  }
  const std::uint32_t drafting = figures.Number("nextn_predict_layers", 0);
  if (drafting > 0 && drafting >= figures.Number("block_count", 0)) return Wrong(figures.Key("nextn_predict_layers"));
  // llama.cpp's loader divides by these numbers.
  for (const char* divisor : {"full_attention_interval", "attention.output_group_count"}) {
    if (figures.Number(divisor, 1) == 0) return Wrong(figures.Key(divisor));
  }
  return Status::Ok();
}

Status CheckTensorTypes(const gguf_context* header) {
  for (std::int64_t i = 0; i < gguf_get_n_tensors(header); ++i) {
    const std::string_view name = gguf_get_tensor_name(header, i);
    const ggml_type type = gguf_get_tensor_type(header, i);
    if (IsNoWeight(name, type) || (IsF32Alone(name) && type != GGML_TYPE_F32)) return Wrong(name);
  }
  return Status::Ok();
}

}  // namespace meshnet
