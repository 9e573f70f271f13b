// Layer ranges of the demo model against the whole model: same logits, bit for bit, at equal batch shapes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/engines_under_test.h"
#include "engine/llama_gguf_files.h"
#include "engine/llama_range_compare.h"
#include "engine/llama_range_prompts.h"

namespace meshnet::range {
namespace {

constexpr int kLayers = 30;

struct Case {
  std::string name;
  std::vector<int> cuts;
  ChainOptions options;
};

class LlamaRangeTest : public testing::Test {
 protected:
  void SetUp() override {
    SilenceLlama();
    path_ = TestModelPath();
  }
  std::string path_;
};

class LlamaRangeParityTest : public LlamaRangeTest, public testing::WithParamInterface<Case> {};

TEST_P(LlamaRangeParityTest, EveryPromptIsBitIdentical) {
  Chain whole(path_, {}, 0, GetParam().options);
  Chain chain(path_, GetParam().cuts, kLayers, GetParam().options);
  Counts counts;
  for (const std::string& prompt : ShortPrompts()) {
    const std::vector<llama_token> tokens = Tokenise(whole.stage(0).model(), prompt);
    GenerateAndCompare(whole, chain, tokens, 24, 16, counts);
    Forget(whole);
    Forget(chain);
  }
  counts.Print(GetParam().name);
  counts.ExpectIdentical(300);
}

ChainOptions With(void (*change)(ChainOptions&)) {
  ChainOptions options;
  change(options);
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Cuts, LlamaRangeParityTest,
    testing::Values(Case{"cut_15_15", {15}, {}}, Case{"cut_10_10_10", {10, 20}, {}}, Case{"cut_1_29", {1}, {}},
                    Case{"cut_29_1", {29}, {}}, Case{"cut_7_16_7", {7, 23}, {}},
                    Case{"one_range_of_all_layers", {}, {}},
                    Case{"no_flash_attention", {11, 12}, With([](ChainOptions& o) {
                           o.flash_attention = LLAMA_FLASH_ATTN_TYPE_DISABLED;
                         })},
                    Case{"small_ubatch", {15}, With([](ChainOptions& o) { o.ubatch_rows = 5; })},
                    Case{"kv_q8_0", {15}, With([](ChainOptions& o) { o.kv_type = GGML_TYPE_Q8_0; })},
                    Case{"no_mmap", {15}, With([](ChainOptions& o) { o.load_mode = LLAMA_LOAD_MODE_NONE; })},
                    Case{"hidden_without_tokens", {10, 20}, With([](ChainOptions& o) { o.feed = Feed::kHiddenOnly; })},
                    Case{"plain_batch", {10, 20}, With([](ChainOptions& o) { o.feed = Feed::kPlainBatch; })}),
    [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

TEST_F(LlamaRangeTest, ALongPromptInChunksIsBitIdentical) {
  Chain whole(path_, {}, 0);
  Chain chain(path_, {10, 20}, kLayers);
  const std::vector<llama_token> tokens = Tokenise(whole.stage(0).model(), LongPrompt());
  ASSERT_GE(tokens.size(), 1000u);
  Counts counts;
  GenerateAndCompare(whole, chain, tokens, 32, 128, counts);
  counts.Print("long_prompt");
  counts.ExpectIdentical(1000);
}

TEST_F(LlamaRangeTest, ATwoPartFileIsBitIdentical) {
  const ScratchFolder folder;
  const std::vector<std::string> parts = SplitGguf(path_, (folder.path() / "demo").string(), {130});
  ASSERT_EQ(parts.size(), 2u);
  Chain whole(path_, {}, 0);
  Chain chain(parts.front(), {15}, kLayers);
  Counts counts;
  for (const std::string& prompt : ShortPrompts()) {
    GenerateAndCompare(whole, chain, Tokenise(whole.stage(0).model(), prompt), 8, 16, counts);
    Forget(whole);
    Forget(chain);
  }
  counts.Print("two_part_file");
  counts.ExpectIdentical(200);
}

TEST_F(LlamaRangeTest, ANudgeOfOneMillionthAtTheSeamIsSeen) {
  Chain whole(path_, {}, 0);
  Chain chain(path_, {15}, kLayers);
  std::mt19937 random(1);
  chain.set_seam_filter([&random](std::span<float> hidden) {
    for (float& value : hidden) value *= 1.0F + 1e-6F * (random() % 2 == 0 ? 1.0F : -1.0F);
  });
  const std::vector<llama_token> tokens = Tokenise(whole.stage(0).model(), ShortPrompts().front());
  Counts counts;
  GenerateAndCompare(whole, chain, tokens, 24, 16, counts);
  counts.Print("control_noise_1e-6");
  EXPECT_GT(counts.mismatched_rows, counts.rows / 2);
}

// Rows of several sequences in one batch, prefill beside decode, with logits wanted for some rows only. Sequences go
// downwards, so that a cache per sequence has to regroup the rows.
void CompareInterleaved(Chain& whole, Chain& chain, Counts& counts) {
  std::vector<std::vector<llama_token>> texts;
  for (const std::string& prompt : ShortPrompts())
    if (texts.size() < 4)
      texts.push_back(Tokenise(whole.stage(0).model(), prompt + " and so on, until the end of the line."));
  std::vector<llama_pos> done(texts.size(), 0);
  for (int step = 0; step < 24; ++step) {
    Rows rows;
    for (int turn = 0; turn < 3; ++turn) {
      for (std::size_t s = texts.size(); s-- > 0;) {
        const bool prefills = static_cast<std::size_t>(step) % texts.size() == s;
        if (turn > 0 && !prefills) continue;
        const llama_token token = texts[s][static_cast<std::size_t>(done[s]) % texts[s].size()];
        rows.push_back({token, done[s]++, static_cast<llama_seq_id>(s), !prefills || turn == 2});
      }
    }
    DecodeAndCompare(whole, chain, rows, counts);
  }
}

TEST_F(LlamaRangeTest, InterleavedSequencesAreBitIdentical) {
  for (const bool unified : {true, false}) {
    ChainOptions options;
    options.sequences = 4;
    options.unified_kv = unified;
    Chain whole(path_, {}, 0, options);
    Chain chain(path_, {10, 20}, kLayers, options);
    Counts counts;
    CompareInterleaved(whole, chain, counts);
    counts.Print(unified ? "interleaved_unified_kv" : "interleaved_kv_per_sequence");
    counts.ExpectIdentical(90);
  }
}

TEST_F(LlamaRangeTest, HiddenRowsComeBackInBatchOrderWhateverTheLogitsFlags) {
  ChainOptions options;
  options.sequences = 3;
  options.unified_kv = false;  // Rows are regrouped by sequence inside, so their order has to be restored.
  Stage head(path_, 0, 15, options);
  Stage alone(path_, 0, 15, options);
  Rows rows;
  for (int position = 0; position < 4; ++position)
    for (int sequence = 2; sequence >= 0; --sequence)
      rows.push_back({100 + 7 * position + sequence, position, sequence, false});
  ASSERT_EQ(head.Decode(rows, {}), 0);
  const std::vector<float> without(head.Hidden().begin(), head.Hidden().end());
  ASSERT_EQ(without.size(), rows.size() * head.hidden_width());
  llama_memory_clear(head.memory(), true);
  for (std::size_t i = 0; i < rows.size(); i += 2) rows[i].wants_logits = true;
  ASSERT_EQ(head.Decode(rows, {}), 0);
  EXPECT_TRUE(std::equal(without.begin(), without.end(), head.Hidden().begin()));
  int matching = 0;
  for (int sequence = 0; sequence < 3; ++sequence) {
    Rows own;
    for (const Row& row : rows)
      if (row.sequence == sequence) own.push_back(row);
    ASSERT_EQ(alone.Decode(own, {}), 0);
    // Another batch shape, so near and not equal: it tells rows apart, which is what order is about.
    for (std::size_t i = 0, k = 0; i < rows.size(); ++i) {
      if (rows[i].sequence != sequence) continue;
      float worst = 0;
      for (std::size_t j = 0; j < head.hidden_width(); ++j)
        worst = std::max(worst,
                         std::abs(without[i * head.hidden_width() + j] - alone.Hidden()[k * head.hidden_width() + j]));
      matching += worst < 0.05F;
      ++k;
    }
  }
  std::printf("[ order    ] rows=%zu matching=%d\n", rows.size(), matching);
  EXPECT_EQ(matching, static_cast<int>(rows.size()));
}

// Pages of mapped files that this process has in memory.
std::int64_t MappedBytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0, resident = 0, shared = 0;
  statm >> total >> resident >> shared;
  return shared * sysconf(_SC_PAGESIZE);
}

// What loading [begin, end) adds to the mapped bytes, and the bytes of its tensors.
std::pair<std::int64_t, std::int64_t> LoadedBytes(const std::string& path, int begin, int end) {
  const std::int64_t before = MappedBytes();
  const ModelPtr model(llama_model_load_range_from_file(path.c_str(), begin, end, ModelParams({})));
  return {MappedBytes() - before, static_cast<std::int64_t>(llama_model_size(model.get()))};
}

TEST_F(LlamaRangeTest, LoadingDoesNotReadTheOtherLayers) {
  constexpr std::int64_t slack_bytes = 4 << 20;
  LoadedBytes(path_, 0, kLayers);  // Code and tables of the library are in memory from here on.
  const auto [all, all_weights] = LoadedBytes(path_, 0, kLayers);
  EXPECT_GE(all + slack_bytes, all_weights);
  // The tied tail's first and last tensor span the file, so nothing is unmapped afterwards.
  const auto [tail, tail_weights] = LoadedBytes(path_, 25, kLayers);
  EXPECT_LE(tail, tail_weights + slack_bytes);
  std::printf("[ memory   ] whole: mapped=%lld weights=%lld; [25,30): mapped=%lld weights=%lld\n",
              static_cast<long long>(all), static_cast<long long>(all_weights), static_cast<long long>(tail),
              static_cast<long long>(tail_weights));
}

TEST_F(LlamaRangeTest, RollbackIsBitIdentical) {
  Chain whole(path_, {}, 0);
  Chain chain(path_, {7, 23}, kLayers);
  Counts counts;
  const std::vector<llama_token> tokens = Tokenise(whole.stage(0).model(), ShortPrompts().back());
  const llama_pos used = GenerateAndCompare(whole, chain, tokens, 16, 16, counts);
  for (const llama_pos back : {1, 5, 20}) {
    const llama_pos from = used - back;
    for (Chain* each : {&whole, &chain})
      for (std::size_t i = 0; i < each->size(); ++i)
        ASSERT_TRUE(llama_memory_seq_rm(each->stage(i).memory(), 0, from, -1));
    Rows rows;
    for (llama_pos i = 0; i < back; ++i) rows.push_back({500 + 11 * back + i, from + i, 0, true});
    DecodeAndCompare(whole, chain, rows, counts);
  }
  counts.Print("rollback");
  counts.ExpectIdentical(60);
}

}  // namespace
}  // namespace meshnet::range
