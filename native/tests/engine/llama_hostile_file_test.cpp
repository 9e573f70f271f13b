// Headers for which llama.cpp's loader would end the process, or take any memory, are refused by a code.
#include <gtest/gtest.h>
#include <llama.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/gguf_limits.h"
#include "engine/llama_engine.h"
#include "engine/llama_gguf_files.h"
#include "engine/llama_metadata.h"
#include "engine/llama_tiny_model.h"

namespace meshnet {
namespace {

using Change = std::function<void(gguf_context*)>;

constexpr std::uint32_t kLayers = 4;  // of the tiny model

Change Number(const std::string& key, std::uint32_t value) {
  return [key, value](gguf_context* gguf) { gguf_set_val_u32(gguf, ("llama." + key).c_str(), value); };
}

class LlamaHostileFileTest : public testing::Test {
 protected:
  // A tiny model's file with other metadata.
  std::string Changed(const Change& change) {
    range::TinyModel model;
    model.architecture = "llama";
    model.layers = kLayers;
    const std::string sound = (folder_.path() / "sound.gguf").string();
    range::TinyModelWriter(model).Write(sound);
    range::GgmlPtr tensors;
    const range::GgufPtr read = range::OpenGguf(sound, tensors, true);
    const range::GgufPtr gguf(gguf_init_empty());
    gguf_set_kv(gguf.get(), read.get());
    for (std::int64_t i = 0; i < gguf_get_n_tensors(read.get()); ++i) {
      gguf_add_tensor(gguf.get(), ggml_get_tensor(tensors.get(), gguf_get_tensor_name(read.get(), i)));
    }
    change(gguf.get());
    const std::string path = (folder_.path() / "changed.gguf").string();
    EXPECT_TRUE(gguf_write_to_file(gguf.get(), path.c_str(), false));
    return path;
  }

  static Status Load(const std::string& path) {
    LoadPlan plan;
    plan.gguf_path = path;
    plan.threads = 1;
    plan.context_length = 64;
    plan.max_sessions = 1;
    return LoadLlamaEngine(plan, [](float) { return true; }).status();
  }

  range::ScratchFolder folder_;
};

TEST_F(LlamaHostileFileTest, FiguresForWhichTheLoaderWouldAbortAreRefused) {
  const std::vector<std::pair<std::string, Change>> changes = {
      {"layers", Number("block_count", 513)},
      {"experts", Number("expert_count", 100'000)},
      {"experts used", Number("expert_used_count", 2)},
      {"expert groups", Number("expert_group_count", 2)},
      {"heads of another size than they rotate", Number("attention.key_length", 32)},
      {"rope scaling",
       [](gguf_context* gguf) { gguf_set_val_str(gguf, "llama.rope.scaling.type", "of no known kind"); }},
  };
  for (const auto& [what, change] : changes) {
    const Status status = Load(Changed(change));
    EXPECT_EQ(status.code(), Code::kLoadFailed) << what << ": " << status.message();
  }
  EXPECT_TRUE(Load(Changed([](gguf_context*) {})).ok());
  std::printf("figures refused: %zu\n", changes.size());
}

TEST_F(LlamaHostileFileTest, FiguresForWhichAStepWouldAbortAreRefusedByName) {
  const auto epsilon = [](float value) {
    return [value](gguf_context* gguf) { gguf_set_val_f32(gguf, "llama.attention.layer_norm_rms_epsilon", value); };
  };
  const auto sections = [](std::vector<std::int32_t> pairs) {
    return [pairs](gguf_context* gguf) {
      gguf_set_arr_data(gguf, "llama.rope.dimension_sections", GGUF_TYPE_INT32, pairs.data(), pairs.size());
    };
  };
  const std::vector<std::pair<std::string, Change>> changes = {
      {"epsilon", epsilon(-1e-6f)},
      {"epsilon", epsilon(std::numeric_limits<float>::quiet_NaN())},
      {"epsilon", epsilon(std::numeric_limits<float>::infinity())},
      {"rope.dimension_count", Number("rope.dimension_count", 0)},
      {"rope.dimension_count", Number("rope.dimension_count", 3)},
      {"rope.dimension_count", Number("rope.dimension_count", 4096)},
      {"rope.dimension_count_swa", Number("rope.dimension_count_swa", 0)},
      {"rope.dimension_count_swa", Number("attention.key_length_swa", 2)},
      {"rope.dimension_count",
       [](gguf_context* gguf) {
         gguf_remove_key(gguf, "llama.rope.dimension_count");
         gguf_set_val_u32(gguf, "llama.attention.key_length", 33);
       }},
      {"rope.dimension_sections",
       [](gguf_context* gguf) { gguf_set_val_i32(gguf, "llama.rope.dimension_sections", 0); }},
      {"rope.dimension_sections", sections({0, 0, 0, 4})},
      {"rope.dimension_sections", sections({1, -1, 0, 0})},
      {"rope.dimension_sections", sections({4096, 1, 1, 0})},
      {"rope.dimension_sections", sections({1, 1, 1, 0, 0})},
      {"attention.sliding_window", Number("attention.sliding_window", 1u << 31)},
      {"hyper_connection.sinkhorn_iterations", Number("hyper_connection.sinkhorn_iterations", 1u << 31)},
      {"attention.output_group_count", Number("attention.output_group_count", 0)},
      {"nextn_predict_layers", Number("nextn_predict_layers", kLayers)},
      {"full_attention_interval", Number("full_attention_interval", 0)},
  };
  for (const auto& [what, change] : changes) {
    const Status status = Load(Changed(change));
    EXPECT_EQ(status.code(), Code::kNotGguf) << what;
    EXPECT_NE(status.message().find(what), std::string::npos) << what << ": " << status.message();
  }
  EXPECT_TRUE(Load(Changed(sections({1, 1, 1, 0}))).ok());
  EXPECT_TRUE(Load(Changed(epsilon(0))).ok());
  // No type that llama.cpp reads figures in.
  EXPECT_EQ(
      Load(Changed([](gguf_context* gguf) { gguf_set_val_u64(gguf, "llama.block_count", (1ull << 32) + 2); })).code(),
      Code::kTruncated);
  std::printf("figures refused: %zu\n", changes.size());
}

TEST_F(LlamaHostileFileTest, TensorsOfTypesThatNoStepComputesWithAreRefusedByName) {
  const std::vector<std::pair<const char*, ggml_type>> tensors = {
      {"blk.0.ffn_up_exps.bias", GGML_TYPE_F16},  {"blk.0.attn_q.bias", GGML_TYPE_BF16},
      {"blk.0.attn_norm_2.weight", GGML_TYPE_I8}, {"blk.0.nextn.enorm.weight", GGML_TYPE_F16},
      {"rope_freqs.weight", GGML_TYPE_F16},       {"blk.0.attn_other.weight", GGML_TYPE_I32},
      {"blk.0.ffn_other.weight", GGML_TYPE_F64},
  };
  const range::GgmlPtr room(ggml_init({/*mem_size=*/1 << 16, /*mem_buffer=*/nullptr, /*no_alloc=*/false}));
  for (const auto& [name, type] : tensors) {
    ggml_tensor* tensor = ggml_new_tensor_1d(room.get(), type, 32);
    ggml_set_name(tensor, name);
    const Status status = Load(Changed([tensor](gguf_context* gguf) { gguf_add_tensor(gguf, tensor); }));
    EXPECT_EQ(status.code(), Code::kNotGguf) << name;
    EXPECT_NE(status.message().find(Quoted(name)), std::string::npos) << status.message();
  }
  std::printf("tensors refused: %zu\n", tensors.size());
}

TEST_F(LlamaHostileFileTest, TheLibraryAloneWouldAbort) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::string path = Changed(Number("block_count", 513));
  EXPECT_DEATH(llama_model_load_from_file(path.c_str(), llama_model_default_params()), "GGML_ASSERT");
}

// A header by hand, in a sparse file that is long enough for what it promises.
class GgufLimitsTest : public testing::Test {
 public:
  GgufLimitsTest& U32(std::uint32_t value) { return Put(&value, sizeof(value)); }
  GgufLimitsTest& U64(std::uint64_t value) { return Put(&value, sizeof(value)); }
  GgufLimitsTest& Text(const std::string& text) { return U64(text.size()).Put(text.data(), text.size()); }
  // Of a file with so many tensors and keys.
  GgufLimitsTest& Begin(std::uint64_t tensors, std::uint64_t keys) {
    bytes_ = "GGUF";
    return U32(3).U64(tensors).U64(keys);
  }

  Code Check(std::uint64_t file_bytes = std::uint64_t{1} << 33) {
    const std::string path = (folder_.path() / "model.gguf").string();
    std::ofstream(path, std::ios::binary) << bytes_;
    std::filesystem::resize_file(path, file_bytes);
    return CheckGgufLimits(path).code();
  }

 private:
  GgufLimitsTest& Put(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }

  range::ScratchFolder folder_;
  std::string bytes_;
};

constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;
constexpr std::uint32_t kU64 = 10;

TEST_F(GgufLimitsTest, CountsAndLengthsBeyondAnyModelsAreRefused) {
  EXPECT_EQ(Begin(std::uint64_t{1} << 63, 0).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(0, ~std::uint64_t{0}).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(0, 1).U64(std::uint64_t{1} << 63).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(0, 1).Text("k").U32(kString).U64(std::uint64_t{1} << 30).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(0, 1).Text("k").U32(kArray).U32(kString).U64(std::uint64_t{1} << 29).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(0, 1).Text("k").U32(kArray).U32(kU64).U64(std::uint64_t{1} << 61).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(0, 1).Text("k").U32(kArray).U32(kArray).U64(1).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(0, 1).Text("k").U32(13).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(1, 0).U64(std::uint64_t{1} << 30).Check(), Code::kNotGguf);
  EXPECT_EQ(Begin(1, 0).Text("t").U32(5).Check(), Code::kNotGguf);
}

TEST_F(GgufLimitsTest, ArraysCountTogether) {
  const auto two = [this](std::uint64_t first, std::uint64_t second) {
    Begin(0, 2).Text("a").U32(kArray).U32(0).U64(first);
    for (std::uint64_t i = 0; i < first; i += 8) U64(0);
    return Text("b").U32(kArray).U32(0).U64(second).Check();
  };
  EXPECT_EQ(two(std::uint64_t{2} << 20, std::uint64_t{1} << 20), Code::kOk);
  EXPECT_EQ(two(std::uint64_t{2} << 20, (std::uint64_t{1} << 20) + 1), Code::kNotGguf);
}

TEST_F(GgufLimitsTest, AHeaderIsBoundedAndWhole) {
  Begin(0, 20);
  for (int i = 0; i < 20; ++i) Text("key " + std::to_string(i)).U32(kString).Text(std::string(4 << 20, 'x'));
  EXPECT_EQ(Check(), Code::kNotGguf);
  EXPECT_EQ(
      Begin(1, 1).Text("k").U32(kArray).U32(kString).U64(1).Text("v").Text("t").U32(1).U64(8).U32(0).U64(0).Check(200),
      Code::kOk);
  EXPECT_EQ(Check(60), Code::kTruncated);
  EXPECT_EQ(Check(10), Code::kTruncated);
  EXPECT_EQ(CheckGgufLimits("/absent.gguf").code(), Code::kFileMissing);
}

}  // namespace
}  // namespace meshnet
