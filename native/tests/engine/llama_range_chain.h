// A model cut into layer ranges, chained in one process: what the layer range tests compare with the whole model.
//
// Hidden rows are handed over as F32, unchanged unless a test asks for noise. Not thread safe.
#ifndef MESHNET_TESTS_ENGINE_LLAMA_RANGE_CHAIN_H_
#define MESHNET_TESTS_ENGINE_LLAMA_RANGE_CHAIN_H_

#include <llama.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace meshnet::range {

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct ContextDeleter {
  void operator()(llama_context* context) const { llama_free(context); }
};
struct BatchDeleter {
  void operator()(llama_batch_ext* batch) const { llama_batch_ext_free(batch); }
};
using ModelPtr = std::unique_ptr<llama_model, ModelDeleter>;
using ContextPtr = std::unique_ptr<llama_context, ContextDeleter>;
using BatchPtr = std::unique_ptr<llama_batch_ext, BatchDeleter>;

// One row of a batch: a token of one sequence at one position.
struct Row {
  llama_token token;
  llama_pos position;
  llama_seq_id sequence;
  bool wants_logits;
};
using Rows = std::vector<Row>;

// How a stage that is not the head gets its rows.
enum class Feed { kHiddenAndTokens, kHiddenOnly, kPlainBatch };

struct ChainOptions {
  std::uint32_t context_cells = 2048;
  std::uint32_t batch_rows = 512;
  std::uint32_t ubatch_rows = 128;
  std::uint32_t sequences = 1;
  bool unified_kv = true;
  bool whole_windows = true;  // sliding windows keep all positions
  llama_flash_attn_type flash_attention = LLAMA_FLASH_ATTN_TYPE_AUTO;
  ggml_type kv_type = GGML_TYPE_F16;
  Feed feed = Feed::kHiddenAndTokens;
  llama_load_mode load_mode = LLAMA_LOAD_MODE_MMAP;
};

inline void SilenceLlama() {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
}

inline llama_model_params ModelParams(const ChainOptions& options) {
  llama_model_params params = llama_model_default_params();
  params.load_mode = options.load_mode;
  return params;
}

inline ContextPtr MakeContext(llama_model* model, const ChainOptions& options) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = options.context_cells;
  params.n_batch = options.batch_rows;
  params.n_ubatch = options.ubatch_rows;
  params.n_seq_max = options.sequences;
  params.kv_unified = options.unified_kv;
  params.swa_full = options.whole_windows;
  params.flash_attn_type = options.flash_attention;
  params.type_k = params.type_v = options.kv_type;
  params.n_threads = params.n_threads_batch = 1;  // llama.cpp's own pool spins: never more than one thread a test.
  ContextPtr context(llama_init_from_model(model, params));
  if (!context) throw std::runtime_error("no context");
  return context;
}

// A layer range with its context. `layer_end` 0 loads the whole model through the ordinary function.
class Stage {
 public:
  Stage(const std::string& path, int layer_begin, int layer_end, const ChainOptions& options)
      : options_(options),
        model_(layer_end == 0
                   ? llama_model_load_from_file(path.c_str(), ModelParams(options))
                   : llama_model_load_range_from_file(path.c_str(), layer_begin, layer_end, ModelParams(options))) {
    if (!model_) throw std::runtime_error("cannot load " + path);
    context_ = MakeContext(model_.get(), options);
  }
  Stage(ModelPtr model, const ChainOptions& options) : options_(options), model_(std::move(model)) {
    if (!model_) throw std::runtime_error("no model");
    context_ = MakeContext(model_.get(), options);
  }

  llama_model* model() const { return model_.get(); }
  llama_context* context() const { return context_.get(); }
  llama_memory_t memory() const { return llama_get_memory(context_.get()); }
  std::size_t hidden_width() const { return static_cast<std::size_t>(llama_model_n_embd_hidden(model_.get())); }

  // Runs `rows`; `hidden` [rows, hidden_width] F32 row-major, empty for the head. Returns llama_process's code.
  int Decode(const Rows& rows, std::span<const float> hidden) {
    if (!hidden.empty() && options_.feed == Feed::kPlainBatch) return DecodePlain(rows, hidden);
    BatchPtr batch(llama_batch_ext_init(context_.get()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const llama_embd row{hidden.empty() ? nullptr : hidden.data() + i * hidden_width(), 1, hidden_width()};
      const bool with_token = hidden.empty() || options_.feed == Feed::kHiddenAndTokens;
      const int index = with_token ? llama_batch_ext_add_token(batch.get(), rows[i].sequence, rows[i].token)
                                   : llama_batch_ext_add(batch.get(), rows[i].sequence);
      if (index < 0) throw std::runtime_error("row refused");
      if (!hidden.empty() && !llama_batch_ext_set_embd_token(batch.get(), index, row))
        throw std::runtime_error("hidden row refused");
      llama_batch_ext_set_pos(batch.get(), index, &rows[i].position);
      llama_batch_ext_set_output_logits(batch.get(), index, rows[i].wants_logits);
    }
    return llama_process(context_.get(), LLAMA_PROCESS_TYPE_DECODE, batch.get());
  }

  std::span<const float> Hidden() const {
    const float* data = llama_get_hidden(context_.get());
    return {data, static_cast<std::size_t>(llama_n_hidden(context_.get())) * hidden_width()};
  }

  std::span<const float> Logits(int row) const {
    const float* data = llama_get_logits_ith(context_.get(), row);
    if (data == nullptr) throw std::runtime_error("no logits");
    return {data, static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_.get())))};
  }

 private:
  int DecodePlain(const Rows& rows, std::span<const float> hidden) {
    llama_batch batch = llama_batch_init(static_cast<int>(rows.size()), static_cast<int>(hidden_width()), 1);
    std::copy(hidden.begin(), hidden.end(), batch.embd);
    batch.n_tokens = static_cast<int>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      batch.pos[i] = rows[i].position;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = rows[i].sequence;
      batch.logits[i] = rows[i].wants_logits;
    }
    const int code = llama_decode(context_.get(), batch);
    llama_batch_free(batch);
    return code;
  }

  ChainOptions options_;
  ModelPtr model_;
  ContextPtr context_;
};

// All ranges of one model, in order.
class Chain {
 public:
  // `cuts` are the first layers of the second, third, ... range; none: one range that is the whole model.
  Chain(const std::string& path, const std::vector<int>& cuts, int layers, const ChainOptions& options = {}) {
    int begin = 0;
    for (std::size_t i = 0; i <= cuts.size(); ++i) {
      const int end = i < cuts.size() ? cuts[i] : layers;
      stages_.push_back(std::make_unique<Stage>(path, begin, end, options));
      begin = end;
    }
  }
  explicit Chain(std::vector<std::unique_ptr<Stage>> stages) : stages_(std::move(stages)) {}

  // Changes the hidden rows at every seam; for negative controls.
  void set_seam_filter(std::function<void(std::span<float>)> filter) { filter_ = std::move(filter); }

  void Decode(const Rows& rows) {
    std::vector<float> hidden;
    for (auto& stage : stages_) {
      const int code = stage->Decode(rows, hidden);
      if (code != 0) throw std::runtime_error("decode failed with " + std::to_string(code));
      const std::span<const float> out = stage->Hidden();
      hidden.assign(out.begin(), out.end());
      if (filter_) filter_(hidden);
    }
  }

  std::span<const float> Logits(int row) const { return stages_.back()->Logits(row); }
  Stage& stage(std::size_t index) { return *stages_.at(index); }
  std::size_t size() const { return stages_.size(); }

 private:
  std::vector<std::unique_ptr<Stage>> stages_;
  std::function<void(std::span<float>)> filter_;
};

}  // namespace meshnet::range

#endif  // MESHNET_TESTS_ENGINE_LLAMA_RANGE_CHAIN_H_
