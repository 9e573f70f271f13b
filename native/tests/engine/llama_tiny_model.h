// Tiny seeded GGUF models, written with ggml's own writer: same seed, same bytes.
#ifndef MESHNET_TESTS_ENGINE_LLAMA_TINY_MODEL_H_
#define MESHNET_TESTS_ENGINE_LLAMA_TINY_MODEL_H_

#include <ggml.h>
#include <gguf.h>

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace meshnet::range {

struct GgufDeleter {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
struct GgmlDeleter {
  void operator()(ggml_context* context) const { ggml_free(context); }
};
using GgufPtr = std::unique_ptr<gguf_context, GgufDeleter>;
using GgmlPtr = std::unique_ptr<ggml_context, GgmlDeleter>;

struct TinyModel {
  std::string architecture;
  bool tied_embeddings = false;           // no output.weight
  bool attention_biases = false;          // attn_{q,k,v}.bias, as qwen2 has
  bool attention_norms = false;           // attn_{q,k}_norm, as qwen3 has
  bool fused_attention = false;           // attn_qkv with its bias instead of q, k, v
  bool rope_frequencies = false;          // one rope_freqs.weight that all layers share, as llama 3 has
  ggml_type matrix_type = GGML_TYPE_F32;  // of all matrices; GGML_TYPE_Q4_0 is repacked while loading
  std::uint32_t layers = 4;
  std::uint32_t embedding_out = 0;  // embedding_length_out, where it is not the embedding length
  std::uint32_t seed = 1;

  static constexpr std::int64_t kVocabulary = 128;
  static constexpr std::int64_t kEmbedding = 64;
  static constexpr std::int64_t kHeads = 4;
  static constexpr std::int64_t kKeyValueHeads = 2;
  static constexpr std::int64_t kHeadSize = kEmbedding / kHeads;
  static constexpr std::int64_t kFeedForward = 96;
};

class TinyModelWriter {
 public:
  explicit TinyModelWriter(const TinyModel& model)
      : model_(model),
        random_(model.seed),
        gguf_(gguf_init_empty()),
        tensors_(ggml_init({std::size_t{16} << 20, nullptr, false})) {}

  void Write(const std::string& path) {
    AddMetadata();
    AddTensor("token_embd.weight", {TinyModel::kEmbedding, TinyModel::kVocabulary}, 1.0F);
    for (std::uint32_t layer = 0; layer < model_.layers; ++layer) AddLayer("blk." + std::to_string(layer) + ".");
    if (model_.rope_frequencies) AddTensor("rope_freqs.weight", {TinyModel::kHeadSize / 2}, 0.05F, 1.0F);
    AddTensor("output_norm.weight", {TinyModel::kEmbedding}, 0.1F, 1.0F);
    if (!model_.tied_embeddings) AddTensor("output.weight", {TinyModel::kEmbedding, TinyModel::kVocabulary}, 0.2F);
    if (!gguf_write_to_file(gguf_.get(), path.c_str(), false)) throw std::runtime_error("cannot write " + path);
  }

 private:
  void AddMetadata() {
    gguf_set_val_str(gguf_.get(), "general.architecture", model_.architecture.c_str());
    gguf_set_val_str(gguf_.get(), "tokenizer.ggml.model", "no_vocab");
    SetNumber("vocab_size", TinyModel::kVocabulary);
    SetNumber("context_length", 512);
    SetNumber("embedding_length", TinyModel::kEmbedding);
    if (model_.embedding_out != 0) SetNumber("embedding_length_out", model_.embedding_out);
    SetNumber("block_count", model_.layers);
    SetNumber("feed_forward_length", TinyModel::kFeedForward);
    SetNumber("attention.head_count", TinyModel::kHeads);
    SetNumber("attention.head_count_kv", TinyModel::kKeyValueHeads);
    SetNumber("rope.dimension_count", TinyModel::kHeadSize);
    gguf_set_val_f32(gguf_.get(), (model_.architecture + ".attention.layer_norm_rms_epsilon").c_str(), 1e-5F);
  }

  void SetNumber(const std::string& key, std::int64_t value) {
    gguf_set_val_u32(gguf_.get(), (model_.architecture + "." + key).c_str(), static_cast<std::uint32_t>(value));
  }

  void AddLayer(const std::string& prefix) {
    constexpr std::int64_t width = TinyModel::kEmbedding;
    AddTensor(prefix + "attn_norm.weight", {width}, 0.1F, 1.0F);
    AddAttention(prefix);
    AddTensor(prefix + "attn_output.weight", {width, width}, 0.15F);
    AddTensor(prefix + "ffn_norm.weight", {width}, 0.1F, 1.0F);
    AddTensor(prefix + "ffn_gate.weight", {width, TinyModel::kFeedForward}, 0.15F);
    AddTensor(prefix + "ffn_up.weight", {width, TinyModel::kFeedForward}, 0.15F);
    AddTensor(prefix + "ffn_down.weight", {TinyModel::kFeedForward, width}, 0.15F);
  }

  void AddAttention(const std::string& prefix) {
    constexpr std::int64_t width = TinyModel::kEmbedding;
    constexpr std::int64_t kv_width = TinyModel::kHeadSize * TinyModel::kKeyValueHeads;
    if (model_.fused_attention) {
      AddTensor(prefix + "attn_qkv.weight", {width, width + 2 * kv_width}, 0.15F);
      AddTensor(prefix + "attn_qkv.bias", {width + 2 * kv_width}, 0.1F);
    } else {
      AddTensor(prefix + "attn_q.weight", {width, width}, 0.15F);
      AddTensor(prefix + "attn_k.weight", {width, kv_width}, 0.15F);
      AddTensor(prefix + "attn_v.weight", {width, kv_width}, 0.15F);
    }
    if (model_.attention_biases) {
      AddTensor(prefix + "attn_q.bias", {width}, 0.1F);
      AddTensor(prefix + "attn_k.bias", {kv_width}, 0.1F);
      AddTensor(prefix + "attn_v.bias", {kv_width}, 0.1F);
    }
    if (model_.attention_norms) {
      AddTensor(prefix + "attn_q_norm.weight", {TinyModel::kHeadSize}, 0.1F, 1.0F);
      AddTensor(prefix + "attn_k_norm.weight", {TinyModel::kHeadSize}, 0.1F, 1.0F);
    }
  }

  // Values around `mean`, uniform in +-`spread`: mt19937 raw output, so every standard library gives the same.
  void AddTensor(const std::string& name, const std::vector<std::int64_t>& shape, float spread, float mean = 0.0F) {
    const ggml_type type = shape.size() == 2 ? model_.matrix_type : GGML_TYPE_F32;
    ggml_tensor* tensor = ggml_new_tensor(tensors_.get(), type, static_cast<int>(shape.size()), shape.data());
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    for (float& value : values) {
      const float unit = static_cast<float>(random_() >> 8) * (1.0F / (1 << 24));
      value = mean + spread * (2.0F * unit - 1.0F);
    }
    ggml_quantize_chunk(type, values.data(), tensor->data, 0, ggml_nrows(tensor), shape.front(), nullptr);
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(gguf_.get(), tensor);
  }

  TinyModel model_;
  std::mt19937 random_;
  GgufPtr gguf_;
  GgmlPtr tensors_;
};

}  // namespace meshnet::range

#endif  // MESHNET_TESTS_ENGINE_LLAMA_TINY_MODEL_H_
