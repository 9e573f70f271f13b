// LlamaEngine against llama.cpp itself, and against files that are not what they should be.
#include "engine/llama_engine.h"

#include <gguf.h>
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/engines_under_test.h"
#include "measure/llama_profile.h"

namespace meshnet {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<std::uint32_t>;

const Tokens kPrompt = {1, 4093, 198, 504, 3575, 282, 4649, 314, 253, 2, 198};

std::uint32_t ArgMax(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

LoadPlan Plan(const std::string& path) {
  LoadPlan plan;
  plan.gguf_path = path;
  plan.context_length = 256;
  plan.max_sessions = 2;
  plan.threads = 1;  // on a busy machine threads wait for each other at every node of the graph
  plan.flash_attention = true;
  return plan;
}

// A folder of the test's own, removed with everything in it.
class LlamaFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("meshnet-" + std::to_string(::getpid()) + "-" +
                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }

  static std::string Head(const std::string& path, std::size_t bytes) {
    std::string content(bytes, '\0');
    std::ifstream(path, std::ios::binary).read(content.data(), static_cast<std::streamsize>(bytes));
    return content;
  }

  static Code LoadCode(const std::string& path) { return LoadLlamaEngine(Plan(path), GoOn).status().code(); }

  fs::path folder_;
};

TEST_F(LlamaFiles, BadOnesAreTypedErrors) {
  const std::string model = TestModelPath();
  EXPECT_EQ(LoadCode((folder_ / "absent.gguf").string()), Code::kFileMissing);
  EXPECT_EQ(LoadCode(folder_.string()), Code::kFileMissing);
  EXPECT_EQ(LoadCode(Write("empty.gguf", "")), Code::kNotGguf);
  EXPECT_EQ(LoadCode(Write("text.gguf", "This is not a model.")), Code::kNotGguf);
  EXPECT_EQ(LoadCode(Write("magic.gguf", "GGUF")), Code::kTruncated);
  EXPECT_EQ(LoadCode(Write("header.gguf", Head(model, 10'000))), Code::kTruncated);
  EXPECT_EQ(LoadCode(Write("tensors.gguf", Head(model, 8'000'000))), Code::kTruncated);
}

TEST_F(LlamaFiles, OtherArchitecturesAreRefusedByName) {
  gguf_context* header = gguf_init_empty();
  gguf_set_val_str(header, "general.architecture", "mamba");
  gguf_set_val_u32(header, "mamba.block_count", 4);
  const std::string path = (folder_ / "mamba.gguf").string();
  ASSERT_TRUE(gguf_write_to_file(header, path.c_str(), true));
  gguf_free(header);
  const Status status = LoadLlamaEngine(Plan(path), GoOn).status();
  EXPECT_EQ(status.code(), Code::kUnsupportedArchitecture);
  EXPECT_NE(status.message().find("mamba"), std::string::npos);
}

TEST_F(LlamaFiles, LimitsOutOfRangeAreRefused) {
  LoadPlan plan = Plan(TestModelPath());
  plan.context_length = 1u << 30;
  EXPECT_EQ(LoadLlamaEngine(plan, GoOn).status().code(), Code::kInvalidArgument);
  plan = Plan(TestModelPath());
  plan.kv_cells = 100;  // less than one context
  EXPECT_EQ(LoadLlamaEngine(plan, GoOn).status().code(), Code::kInvalidArgument);
  plan = Plan(TestModelPath());
  for (const LayerSpan layers : {LayerSpan{0, 31}, LayerSpan{30, 31}, LayerSpan{5, 5}, LayerSpan{6, 5}}) {
    plan = Plan(TestModelPath());
    plan.layers = layers;
    EXPECT_EQ(LoadLlamaEngine(plan, GoOn).status().code(), Code::kLayersOutOfRange) << layers.layer_begin;
  }
}

// The model's last norm turned into NaN: every logit is NaN.
TEST_F(LlamaFiles, NotFiniteOutputsQuarantineTheirSequenceUntilAllAreClosed) {
  const std::string path = (folder_ / "nan.gguf").string();
  fs::copy_file(TestModelPath(), path);
  gguf_context* header = gguf_init_from_file(path.c_str(), {true, nullptr});
  const std::int64_t norm = gguf_find_tensor(header, "output_norm.weight");
  ASSERT_GE(norm, 0);
  const std::vector<float> nans(gguf_get_tensor_size(header, norm) / sizeof(float),
                                std::numeric_limits<float>::quiet_NaN());
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(gguf_get_data_offset(header) + gguf_get_tensor_offset(header, norm)));
  file.write(reinterpret_cast<const char*>(nans.data()), static_cast<std::streamsize>(nans.size() * sizeof(float)));
  file.close();
  gguf_free(header);

  Result<std::unique_ptr<ShardEngine>> loaded = LoadLlamaEngine(Plan(path), GoOn);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ShardEngine& engine = *loaded.value();
  ASSERT_TRUE(engine.Open(0).ok());
  ASSERT_TRUE(engine.Open(1).ok());
  const Tokens tokens = {1};
  const std::uint32_t wanted = 0;
  StepSlice slice;
  slice.rows = 1;
  slice.token_ids = tokens;
  slice.logits_rows = {&wanted, 1};
  std::vector<StepResult> results;
  ASSERT_TRUE(engine.Step({&slice, 1}, &results).ok());
  EXPECT_EQ(results[0].status.code(), Code::kNotFinite);
  EXPECT_TRUE(results[0].logits.empty());
  engine.Close(0);
  EXPECT_FALSE(engine.IsUsable(0));
  EXPECT_EQ(engine.Open(0).code(), Code::kNotReady);
  engine.Close(1);
  EXPECT_TRUE(engine.IsUsable(0));
  EXPECT_TRUE(engine.Open(0).ok());
}

// llama.cpp as its own examples use it: one context, one sequence, batches of one.
Tokens PlainGreedy(const Tokens& prompt, int count) {
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  llama_model* model = llama_model_load_from_file(TestModelPath().c_str(), model_params);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 256;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  llama_context* context = llama_init_from_model(model, params);
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  std::vector<llama_token> batch(prompt.begin(), prompt.end());
  Tokens generated;
  for (int i = 0; i < count; ++i) {
    if (llama_decode(context, llama_batch_get_one(batch.data(), static_cast<std::int32_t>(batch.size()))) != 0) break;
    generated.push_back(ArgMax({llama_get_logits_ith(context, -1), vocabulary}));
    batch = {static_cast<llama_token>(generated.back())};
  }
  llama_free(context);
  llama_model_free(model);
  return generated;
}

Tokens EngineGreedy(ShardEngine* engine, const Tokens& prompt, int count) {
  EXPECT_TRUE(engine->Open(0).ok());
  Tokens rows = prompt;
  Tokens generated;
  for (int i = 0; i < count; ++i) {
    const auto last = static_cast<std::uint32_t>(rows.size() - 1);
    StepSlice slice;
    slice.position = engine->Length(0);
    slice.rows = static_cast<std::uint32_t>(rows.size());
    slice.token_ids = rows;
    slice.logits_rows = {&last, 1};
    std::vector<StepResult> results;
    EXPECT_TRUE(engine->Step({&slice, 1}, &results).ok());
    if (!results.at(0).status.ok()) break;
    generated.push_back(ArgMax(results[0].logits));
    rows = {generated.back()};
  }
  engine->Close(0);
  return generated;
}

TEST(LlamaEngineTest, TheExactClassNamesTheThreadsOfAStep) {
  for (const std::uint32_t threads : {1u, 2u}) {
    LoadPlan plan = Plan(TestModelPath());
    plan.threads = threads;
    Result<std::unique_ptr<ShardEngine>> engine = LoadLlamaEngine(plan, GoOn);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    EXPECT_EQ(engine.value()->facts().contract.exact_class().threads(), threads);
  }
}

TEST(LlamaEngineTest, MemoryIsWhatLlamaAllocated) {
  LoadPlan plan = Plan(TestModelPath());
  const auto facts = [&plan] { return LoadLlamaEngine(plan, GoOn).value()->facts(); };
  const ShardFacts whole = facts();
  constexpr std::uint64_t kLayers = 30;
  constexpr std::uint64_t kBytesOfACell = 2 * 2 * 3 * 64;  // K and V in f16 of three heads of 64
  EXPECT_EQ(whole.kv_bytes, kLayers * kBytesOfACell * 256 * 2);
  EXPECT_GT(whole.compute_bytes, std::uint64_t{1} << 20);
  plan.layers = {10, 20};
  const ShardFacts middle = facts();
  EXPECT_EQ(middle.kv_bytes * 3, whole.kv_bytes);
  EXPECT_GT(middle.compute_bytes, 0u);
  EXPECT_LT(middle.compute_bytes, whole.compute_bytes);  // no logits
}

TEST(LlamaEngineTest, AProfileThatIsAskedForAndNotThereIsRefused) {
  LoadPlan plan = Plan(TestModelPath());
  plan.profile = true;
  EXPECT_EQ(LoadLlamaEngine(plan, GoOn).status().code(), Code::kInvalidArgument);
}

// A graph that is watched gives the same logits, and its parts follow each other.
TEST(LlamaEngineTest, AProfileNamesThePartsOfAStepAndChangesNothing) {
  const auto run = [](bool profile, std::vector<float>* logits) {
    LoadPlan plan = Plan(TestModelPath());
    plan.profile = profile;
    std::unique_ptr<ShardEngine> engine =
        std::move(LoadLlamaEngine(plan, GoOn, std::make_unique<LlamaProfile>()).value());
    EXPECT_TRUE(engine->Open(0).ok());
    const std::uint32_t last = static_cast<std::uint32_t>(kPrompt.size()) - 1;
    StepSlice slice;
    slice.rows = static_cast<std::uint32_t>(kPrompt.size());
    slice.token_ids = kPrompt;
    slice.logits_rows = {&last, 1};
    std::vector<StepResult> results;
    EXPECT_TRUE(engine->Step({&slice, 1}, &results).ok());
    logits->assign(results.at(0).logits.begin(), results.at(0).logits.end());
    std::vector<std::string> parts;
    std::chrono::steady_clock::time_point before;
    for (const StepMark& mark : engine->marks()) {
      EXPECT_LE(before, mark.at);
      before = mark.at;
      parts.push_back(mark.part);
    }
    return parts;
  };
  std::vector<float> plain;
  std::vector<float> profiled;
  EXPECT_TRUE(run(false, &plain).empty());
  const std::vector<std::string> expected = {"graph",        "layers to 5",  "layers to 10", "layers to 15",
                                             "layers to 20", "layers to 25", "layers to 30", "norm",
                                             "head",         "outputs"};
  EXPECT_EQ(run(true, &profiled), expected);
  ASSERT_FALSE(plain.empty());
  EXPECT_EQ(profiled, plain);
}

TEST(LlamaEngineTest, GreedyEqualsAPlainLlamaLoop) {
  constexpr int kTokens = 48;
  Result<std::unique_ptr<ShardEngine>> engine = LoadLlamaEngine(Plan(TestModelPath()), GoOn);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const Tokens ours = EngineGreedy(engine.value().get(), kPrompt, kTokens);
  ASSERT_EQ(ours.size(), static_cast<std::size_t>(kTokens));
  EXPECT_EQ(ours, PlainGreedy(kPrompt, kTokens));
  Tokens other = kPrompt;
  other[1] = 42;  // control: another prompt gives another answer
  EXPECT_NE(ours, PlainGreedy(other, kTokens));
}

}  // namespace
}  // namespace meshnet
