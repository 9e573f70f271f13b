// Every cut of tiny seeded models: other architectures, tied and separate heads, shared and fused tensors, many parts.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/llama_gguf_files.h"
#include "engine/llama_range_compare.h"
#include "engine/llama_tiny_model.h"

namespace meshnet::range {
namespace {

namespace fs = std::filesystem;

class LlamaRangeTinyTest : public testing::Test {
 protected:
  LlamaRangeTinyTest() { SilenceLlama(); }

  std::string Write(const TinyModel& model, const std::string& name) {
    const std::string path = (folder_.path() / name).string();
    TinyModelWriter(model).Write(path);
    return path;
  }

  ScratchFolder folder_;
};

ChainOptions SmallContext() {
  ChainOptions options;
  options.context_cells = 256;
  return options;
}

// All ways to cut `layers` layers, the uncut one included.
std::vector<std::vector<int>> AllCuts(int layers) {
  std::vector<std::vector<int>> all;
  for (unsigned mask = 0; mask < 1U << (layers - 1); ++mask) {
    std::vector<int> cuts;
    for (int layer = 1; layer < layers; ++layer)
      if (mask >> (layer - 1) & 1U) cuts.push_back(layer);
    all.push_back(cuts);
  }
  return all;
}

void CompareTiny(Chain& whole, Chain& chain, Counts& counts) {
  std::vector<llama_token> prompt;
  for (int i = 0; i < 19; ++i) prompt.push_back((i * 37 + 11) % static_cast<int>(TinyModel::kVocabulary));
  GenerateAndCompare(whole, chain, prompt, 13, 8, counts);
}

std::vector<std::pair<std::string, TinyModel>> Architectures() {
  std::vector<std::pair<std::string, TinyModel>> all;
  all.push_back({"llama_separate_head", {.architecture = "llama"}});
  all.push_back({"llama_tied", {.architecture = "llama", .tied_embeddings = true, .seed = 2}});
  all.push_back({"llama_shared_rope_frequencies", {.architecture = "llama", .rope_frequencies = true, .seed = 3}});
  all.push_back({"llama_fused_attention", {.architecture = "llama", .fused_attention = true, .seed = 4}});
  all.push_back({"llama_q4_0_repacked", {.architecture = "llama", .matrix_type = GGML_TYPE_Q4_0, .seed = 10}});
  all.push_back({"qwen3_q4_0_tied",
                 {.architecture = "qwen3",
                  .tied_embeddings = true,
                  .attention_norms = true,
                  .matrix_type = GGML_TYPE_Q4_0,
                  .seed = 11}});
  all.push_back({"qwen2", {.architecture = "qwen2", .attention_biases = true, .seed = 5}});
  all.push_back(
      {"qwen2_tied", {.architecture = "qwen2", .tied_embeddings = true, .attention_biases = true, .seed = 6}});
  all.push_back({"qwen3", {.architecture = "qwen3", .attention_norms = true, .seed = 7}});
  all.push_back({"qwen3_tied", {.architecture = "qwen3", .tied_embeddings = true, .attention_norms = true, .seed = 8}});
  return all;
}

TEST_F(LlamaRangeTinyTest, EveryCutOfEveryArchitectureIsBitIdentical) {
  for (const auto& [name, model] : Architectures()) {
    const std::string path = Write(model, name + ".gguf");
    Counts counts;
    int cuts_compared = 0;
    for (const std::vector<int>& cuts : AllCuts(static_cast<int>(model.layers))) {
      Chain whole(path, {}, 0, SmallContext());
      Chain chain(path, cuts, static_cast<int>(model.layers), SmallContext());
      CompareTiny(whole, chain, counts);
      ++cuts_compared;
    }
    counts.Print(name + " cuts=" + std::to_string(cuts_compared));
    counts.ExpectIdentical(200);
  }
}

TEST_F(LlamaRangeTinyTest, PartsAreFoundByNameAndTakenAsGiven) {
  const std::string path = Write({.architecture = "qwen2", .attention_biases = true, .seed = 9}, "whole.gguf");
  Counts counts;
  for (const std::vector<int>& sizes : {std::vector<int>{20}, std::vector<int>{0, 25}}) {
    const auto paths = SplitGguf(path, (folder_.path() / ("part" + std::to_string(sizes.size()))).string(), sizes);
    Chain whole(path, {}, 0, SmallContext());
    Chain by_name(paths.front(), {1, 3}, 4, SmallContext());
    CompareTiny(whole, by_name, counts);

    std::vector<std::string> renamed;
    std::vector<const char*> names;
    for (const std::string& part : paths) {
      renamed.push_back(part + ".renamed");
      fs::rename(part, renamed.back());
    }
    for (const std::string& part : renamed) names.push_back(part.c_str());
    std::vector<std::unique_ptr<Stage>> stages;
    for (const auto& [begin, end] : {std::pair{0, 2}, std::pair{2, 4}}) {
      ModelPtr model(llama_model_load_range_from_splits(names.data(), names.size(), begin, end, ModelParams({})));
      stages.push_back(std::make_unique<Stage>(std::move(model), SmallContext()));
    }
    Chain as_given(std::move(stages));
    Forget(whole);
    CompareTiny(whole, as_given, counts);
  }
  counts.Print("parts");
  counts.ExpectIdentical(100);
}

TEST_F(LlamaRangeTinyTest, WhatCannotBeARangeIsRefused) {
  const std::string llama = Write({.architecture = "llama"}, "llama.gguf");
  const auto load = [](const std::string& path, int begin, int end, bool vocab_only = false) {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = vocab_only;
    return ModelPtr(llama_model_load_range_from_file(path.c_str(), begin, end, params)) != nullptr;
  };
  EXPECT_TRUE(load(llama, 0, 4));
  EXPECT_TRUE(load(llama, 3, 4));
  for (const auto& [begin, end] : {std::pair{-1, 2}, {2, 2}, {3, 1}, {0, 5}, {4, 5}, {0, 0}, {2, 2147483647}})
    EXPECT_FALSE(load(llama, begin, end)) << begin << ":" << end;
  EXPECT_FALSE(load(llama, 0, 2, true));
  EXPECT_FALSE(load((folder_.path() / "missing.gguf").string(), 0, 2));
  const char* none = nullptr;
  EXPECT_EQ(llama_model_load_range_from_splits(&none, 0, 0, 2, llama_model_default_params()), nullptr);
}

TEST_F(LlamaRangeTinyTest, ASeamOfAnotherWidthIsRefused) {
  const std::string wide = Write({.architecture = "qwen3", .attention_norms = true, .embedding_out = 32}, "wide.gguf");
  const llama_model_params params = llama_model_default_params();
  EXPECT_EQ(llama_model_load_range_from_file(wide.c_str(), 0, 2, params), nullptr);
  EXPECT_NE(ModelPtr(llama_model_load_range_from_file(wide.c_str(), 2, 4, params)), nullptr);
}

TEST_F(LlamaRangeTinyTest, AnotherArchitectureIsRefusedByName) {
  std::string log;
  llama_log_set([](ggml_log_level, const char* text, void* data) { static_cast<std::string*>(data)->append(text); },
                &log);
  const std::string gemma = Write({.architecture = "gemma", .tied_embeddings = true}, "gemma.gguf");
  const llama_model_params params = llama_model_default_params();
  EXPECT_EQ(llama_model_load_range_from_file(gemma.c_str(), 0, 2, params), nullptr);
  EXPECT_EQ(llama_model_load_range_from_file(gemma.c_str(), 0, 4, params), nullptr);
  EXPECT_NE(log.find("layer ranges are not supported for architecture 'gemma'"), std::string::npos);
  EXPECT_NE(ModelPtr(llama_model_load_from_file(gemma.c_str(), params)), nullptr);
  SilenceLlama();
}

TEST_F(LlamaRangeTinyTest, ProgressEndsWhereTheOwnedTensorsEnd) {
  for (const auto& [name, model] : Architectures()) {
    const std::string path = Write(model, name + ".gguf");
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 3}, {3, 4}}) {
      float progress = 0;
      llama_model_params params = llama_model_default_params();
      params.progress_callback_user_data = &progress;
      params.progress_callback = [](float now, void* data) {
        EXPECT_GE(now, *static_cast<float*>(data));
        *static_cast<float*>(data) = now;
        return true;
      };
      EXPECT_NE(ModelPtr(llama_model_load_range_from_file(path.c_str(), begin, end, params)), nullptr);
      EXPECT_EQ(progress, 1.0F) << name << " " << begin << ":" << end;
    }
  }
}

TEST_F(LlamaRangeTinyTest, ARangeTellsWhatItIs) {
  const std::string path = Write({.architecture = "qwen3", .attention_norms = true}, "qwen3.gguf");
  const Stage whole(path, 0, 0, SmallContext());
  EXPECT_EQ(llama_model_layer_begin(whole.model()), 0);
  EXPECT_EQ(llama_model_layer_end(whole.model()), 4);
  EXPECT_TRUE(llama_model_needs_token_ids(whole.model()));
  const Stage middle(path, 1, 3, SmallContext());
  EXPECT_EQ(llama_model_layer_begin(middle.model()), 1);
  EXPECT_EQ(llama_model_layer_end(middle.model()), 3);
  EXPECT_EQ(llama_model_n_layer(middle.model()), 4);
  EXPECT_EQ(llama_model_n_embd_hidden(middle.model()), TinyModel::kEmbedding);
  EXPECT_FALSE(llama_model_needs_token_ids(middle.model()));
}

}  // namespace
}  // namespace meshnet::range
