// Every architecture that is served, on a tiny generated model: shards at every cut against the whole model.
//
// The files are made by `make tiny-models` (tests/simulators/tiny_models) and found in MESHNET_TINY_MODELS, or in
// build/models/tiny. Every test records what it compared as properties of its result, which the parity program reads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/llama_engine_chain.h"
#include "engine/llama_range_compare.h"

namespace meshnet::range {
namespace {

constexpr std::size_t kPromptRows = 150;  // more than one block of any compressed cache, more than any window
constexpr std::size_t kChunkRows = 50;
constexpr int kGreedySteps = 32;
constexpr std::size_t kOtherChunkRows = 16;

using Cuts = std::vector<std::uint32_t>;

std::string TinyModelPath(const std::string& architecture) {
  const char* folder = std::getenv("MESHNET_TINY_MODELS");
  const std::string made = std::string(MESHNET_SOURCE_ROOT) + "/build/models/tiny";
  return (folder != nullptr ? std::string(folder) : made) + "/" + architecture + ".gguf";
}

// All ways to make two or three shards of `layers` layers, and one shard a layer.
std::vector<Cuts> AllCuts(std::uint32_t layers) {
  std::vector<Cuts> all;
  for (std::uint32_t first = 1; first < layers; ++first) {
    all.push_back({first});
    for (std::uint32_t second = first + 1; second < layers; ++second) all.push_back({first, second});
  }
  all.emplace_back(layers - 1);
  std::iota(all.back().begin(), all.back().end(), 1U);
  return all;
}

std::uint32_t Highest(const std::vector<float>& logits) { return static_cast<std::uint32_t>(Argmax(logits)); }

// What was run, and what the whole model gave.
struct Transcript {
  std::vector<Step> steps;
  std::vector<StepLogits> logits;

  const StepLogits& Record(WholeModel& whole, Step step) {
    logits.push_back(whole.Run(step));
    steps.push_back(std::move(step));
    return logits.back();
  }
};

std::vector<std::uint32_t> Prompt(std::uint32_t vocabulary, std::size_t rows, std::uint32_t salt) {
  std::vector<std::uint32_t> tokens(rows);
  std::mt19937 random(salt);
  for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(random()) % vocabulary;
  return tokens;
}

// A prompt in chunks, then greedy steps, alone.
Transcript RecordAlone(WholeModel& whole) {
  Transcript transcript;
  const std::vector<std::uint32_t> prompt = Prompt(whole.vocabulary(), kPromptRows, 1);
  for (std::size_t at = 0; at < prompt.size(); at += kChunkRows) {
    const auto begin = prompt.begin() + static_cast<std::ptrdiff_t>(at);
    transcript.Record(whole, {{0, {begin, begin + kChunkRows}}});
  }
  for (int step = 0; step < kGreedySteps; ++step)
    transcript.Record(whole, {{0, {Highest(transcript.logits.back().back())}}});
  return transcript;
}

// Sequence 0 begins to decode while 1 and 2 still take their prompts; then all decode together.
Transcript RecordTogether(WholeModel& whole) {
  Transcript transcript;
  std::vector<std::uint32_t> next(3);
  const auto last = [&](const StepLogits& logits, std::size_t row) { return Highest(logits.at(row)); };
  next[0] = last(transcript.Record(whole, {{0, Prompt(whole.vocabulary(), kChunkRows, 2), false}}), 0);
  for (std::uint32_t salt = 3; salt < 7; ++salt) {
    const StepLogits& logits =
        transcript.Record(whole, {{0, {next[0]}},
                                  {1, Prompt(whole.vocabulary(), kOtherChunkRows, salt), false},
                                  {2, Prompt(whole.vocabulary(), kOtherChunkRows, salt + 100), false}});
    for (std::size_t i = 0; i < next.size(); ++i) next[i] = last(logits, i);
  }
  for (int step = 0; step < kGreedySteps; ++step) {
    const StepLogits& logits = transcript.Record(whole, {{0, {next[0]}}, {1, {next[1]}}, {2, {next[2]}}});
    for (std::size_t i = 0; i < next.size(); ++i) next[i] = last(logits, i);
  }
  return transcript;
}

Step OnSequence(SequenceId sequence, Step step) {
  for (Part& part : step) part.sequence = sequence;
  return step;
}

Transcript OnSequence(SequenceId sequence, Transcript transcript) {
  for (Step& step : transcript.steps) step = OnSequence(sequence, std::move(step));
  return transcript;
}

void Replay(const Transcript& transcript, std::size_t first, std::size_t end, EngineChain& chain, Counts& counts) {
  for (std::size_t i = first; i < end; ++i) {
    const StepLogits found = chain.Run(transcript.steps[i]);
    ASSERT_EQ(found.size(), transcript.logits[i].size());
    for (std::size_t row = 0; row < found.size(); ++row) CompareRow(transcript.logits[i][row], found[row], counts);
  }
}

class LlamaArchitectureTest : public testing::TestWithParam<std::string> {
 protected:
  LlamaArchitectureTest() {
    SilenceLlama();
    path_ = TinyModelPath(GetParam());
  }

  std::uint32_t Layers() {
    const ModelPtr model(llama_model_load_from_file(path_.c_str(), ModelParams({})));
    if (!model) throw std::runtime_error("cannot load " + path_);
    return static_cast<std::uint32_t>(llama_model_n_layer(model.get()));
  }

  bool HasWindow() {
    const ModelPtr model(llama_model_load_from_file(path_.c_str(), ModelParams({})));
    return model && llama_model_n_swa(model.get()) > 0;
  }

  // Rows to take and to take back. Windows keep some more than they see, so there is a number from which they refuse.
  std::vector<std::size_t> Detours() {
    std::vector<std::size_t> detours = {1, 5, 63, 300};
    if (HasWindow()) {
      for (std::size_t rows = 64; rows < 260; rows += 13) detours.push_back(rows);
    }
    return detours;
  }

  std::uint32_t TinyVocabulary() { return WholeModel(path_, {}).vocabulary(); }

  // `check` is its name in the parity program's table.
  void Tell(const std::string& check, const Counts& counts, std::size_t cuts) {
    counts.Print(GetParam() + " " + check + " cuts=" + std::to_string(cuts));
    RecordProperty("architecture", GetParam());
    RecordProperty("check", check);
    RecordProperty("cuts", std::to_string(cuts));
    RecordProperty("rows", std::to_string(counts.rows));
    RecordProperty("mismatched_rows", std::to_string(counts.mismatched_rows));
    RecordProperty("mismatched_bits", std::to_string(counts.mismatched_bits));
    RecordProperty("other_tokens", std::to_string(counts.rows - counts.same_argmax));
  }

  void CompareAtEveryCut(const std::string& check, const Transcript& transcript) {
    Counts counts;
    const std::vector<Cuts> all = AllCuts(Layers());
    for (const Cuts& cuts : all) {
      EngineChain chain(path_, cuts, {});
      Replay(transcript, 0, transcript.steps.size(), chain, counts);
    }
    Tell(check, counts, all.size());
    counts.ExpectIdentical(100);
  }

  std::string path_;
};

TEST_P(LlamaArchitectureTest, ASessionAloneIsBitIdentical) {
  WholeModel whole(path_, {});
  CompareAtEveryCut("alone", RecordAlone(whole));
}

TEST_P(LlamaArchitectureTest, SessionsTogetherAreBitIdentical) {
  WholeModel whole(path_, {});
  CompareAtEveryCut("together", RecordTogether(whole));
}

// Rows beside the prompt of `RecordAlone`, to be taken back.
std::vector<Step> DetourSteps(std::uint32_t vocabulary, std::size_t rows) {
  std::vector<Step> steps;
  const std::vector<std::uint32_t> tokens = Prompt(vocabulary, rows, 9);
  for (std::size_t at = 0; at < rows; at += kChunkRows) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    steps.push_back({{0, {begin, begin + static_cast<std::ptrdiff_t>(std::min(kChunkRows, rows - at))}, false}});
  }
  return steps;
}

// The same steps after the prompt, on one engine that took a detour and was rewound; empty where it refuses.
std::vector<StepLogits> RecordRewound(const std::string& path, const Transcript& transcript, std::size_t detour) {
  EngineChain whole(path, {}, {});
  const std::size_t prompt_steps = kPromptRows / kChunkRows;
  for (std::size_t i = 0; i < prompt_steps; ++i) whole.Run(transcript.steps[i]);
  for (const Step& step : DetourSteps(whole.engines().back()->facts().contract.vocab_size(), detour)) whole.Run(step);
  if (!whole.Rewind(0, kPromptRows)) return {};
  std::vector<StepLogits> logits(prompt_steps);
  for (std::size_t i = prompt_steps; i < transcript.steps.size(); ++i) logits.push_back(whole.Run(transcript.steps[i]));
  return logits;
}

// Steps of `RecordAlone` with which its runs to the end begin: the first one, and after each rewind.
std::vector<std::size_t> RunBegins() {
  std::vector<std::size_t> begins = {0};
  for (const std::size_t answered :
       {std::size_t{kGreedySteps} - 1, std::size_t{13}, std::size_t{21}, std::size_t{5}, std::size_t{0}})
    begins.push_back(kPromptRows / kChunkRows + answered);
  return begins;
}

// The logits of an answer of which the newest rows are taken back, again and again, and computed once more.
std::vector<StepLogits> RunWithRewinds(EngineChain& chain, const Transcript& transcript) {
  std::vector<StepLogits> logits;
  for (const std::size_t begin : RunBegins()) {
    const std::size_t length = begin == 0 ? 0 : kPromptRows + begin - kPromptRows / kChunkRows;
    if (!chain.Rewind(0, length)) throw std::runtime_error("a rewind into the answer was refused");
    for (std::size_t i = begin; i < transcript.steps.size(); ++i) logits.push_back(chain.Run(transcript.steps[i]));
  }
  return logits;
}

double LargestDifference(const std::vector<float>& left, const std::vector<float>& right) {
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(left[i]) - right[i]));
  return largest;
}

// To take rows, then take them back, is as if they had never been; or it is refused, on all shards alike. A window's
// cells lie in a ring: rows after a rewind may lie in another order, and sums over them have other last bits.
TEST_P(LlamaArchitectureTest, ARewindIsExactOrRefused) {
  WholeModel whole(path_, {});
  const Transcript never = RecordAlone(whole);
  const std::size_t prompt_steps = kPromptRows / kChunkRows;
  Counts counts;       // against one engine with all layers, rewound alike
  Counts never_there;  // against the whole model that never took the rows
  double largest = 0;
  std::size_t exact = 0;
  std::size_t refused = 0;
  const std::vector<Cuts> all = AllCuts(Layers());
  for (const std::size_t detour : Detours()) {
    const std::vector<StepLogits> rewound = RecordRewound(path_, never, detour);
    for (const Cuts& cuts : all) {
      EngineChain chain(path_, cuts, {});
      for (std::size_t i = 0; i < prompt_steps; ++i) chain.Run(never.steps[i]);
      for (const Step& step : DetourSteps(whole.vocabulary(), detour)) chain.Run(step);
      if (!chain.Rewind(0, kPromptRows)) {
        ++refused;
        chain.Run({{0, {1}}});  // it goes on where it was
        EXPECT_EQ(chain.Length(0), kPromptRows + detour + 1);
        EXPECT_TRUE(chain.Rewind(0, 0));  // to forget everything is always possible
        Replay(never, 0, never.steps.size(), chain, never_there);
        continue;
      }
      ++exact;
      ASSERT_FALSE(rewound.empty());
      for (std::size_t i = prompt_steps; i < never.steps.size(); ++i) {
        const StepLogits found = chain.Run(never.steps[i]);
        CompareRow(rewound[i].at(0), found.at(0), counts);
        CompareRow(never.logits[i].at(0), found.at(0), never_there);
        largest = std::max(largest, LargestDifference(never.logits[i].at(0), found.at(0)));
      }
    }
  }
  Counts both = counts;
  if (exact == 0) both = never_there;
  Tell("rewind", both, all.size());
  std::printf("[ rewinds  ] %s exact=%zu refused=%zu, against never: rows=%lld other_tokens=%lld largest=%.2e\n",
              GetParam().c_str(), exact, refused, static_cast<long long>(never_there.rows),
              static_cast<long long>(never_there.rows - never_there.same_argmax), largest);
  RecordProperty("exact", std::to_string(exact));
  RecordProperty("refused", std::to_string(refused));
  both.ExpectIdentical(100);
  EXPECT_GT(never_there.rows, 0);
  EXPECT_EQ(never_there.same_argmax, never_there.rows);
  // Attention over f16 cells in another order. A row that is gone makes a difference of more than one.
  EXPECT_LT(largest, 0.1);
}

// A rewind that needs kept states is refused by shards whose load did not ask for them, and those of other memories are
// exact without.
TEST_P(LlamaArchitectureTest, ALoadThatDoesNotAskKeepsNoStates) {
  WholeModel whole(path_, {});
  const Transcript never = RecordAlone(whole);
  EngineOptions options;
  options.keep_rewind_states = false;
  EngineChain chain(path_, {1}, options);
  for (const Step& step : never.steps) chain.Run(step);
  const std::uint64_t length = chain.Length(0);
  const std::set<std::string> without_past = {"deepseek4", "qwen35", "qwen35moe"};
  const bool is_refused = without_past.contains(GetParam());
  EXPECT_EQ(chain.Rewind(0, length - 1), !is_refused);
  EXPECT_EQ(chain.Length(0), is_refused ? length : length - 1);
  EXPECT_TRUE(chain.Rewind(0, 0));  // to forget everything is always possible
}

// Positions between states are reached by computing rows again, which neither the shards' outputs nor a cut shows.
TEST_P(LlamaArchitectureTest, ARewindIntoTheAnswerIsAsIfNothingHadBeenBehindIt) {
  WholeModel whole(path_, {});
  const Transcript never = RecordAlone(whole);
  EngineChain one(path_, {}, {});
  const std::vector<StepLogits> rewound = RunWithRewinds(one, never);
  Counts counts;       // against one engine with all layers, rewound alike
  Counts never_there;  // against the whole model that never went back
  double largest = 0;
  const std::vector<Cuts> all = AllCuts(Layers());
  for (const Cuts& cuts : all) {
    EngineChain chain(path_, cuts, {});
    const std::vector<StepLogits> found = RunWithRewinds(chain, never);
    ASSERT_EQ(found.size(), rewound.size());
    std::size_t at = 0;
    for (const std::size_t begin : RunBegins()) {
      for (std::size_t i = begin; i < never.steps.size(); ++i, ++at) {
        for (std::size_t row = 0; row < found[at].size(); ++row) {
          CompareRow(rewound[at][row], found[at][row], counts);
          CompareRow(never.logits[i][row], found[at][row], never_there);
          largest = std::max(largest, LargestDifference(never.logits[i][row], found[at][row]));
        }
      }
    }
    ASSERT_EQ(at, found.size());
  }
  Tell("recompute", counts, all.size());
  std::printf("[ recompute] %s against never: rows=%lld mismatched_rows=%lld other_tokens=%lld largest=%.2e\n",
              GetParam().c_str(), static_cast<long long>(never_there.rows),
              static_cast<long long>(never_there.mismatched_rows),
              static_cast<long long>(never_there.rows - never_there.same_argmax), largest);
  counts.ExpectIdentical(100);
  EXPECT_GT(never_there.rows, 0);
  EXPECT_EQ(never_there.same_argmax, never_there.rows);
  // Cells of a window lie in another order once they are restored; all else is equal to the bit.
  EXPECT_LT(largest, HasWindow() ? 0.1 : 1e-30);
}

// A sequence that is taken from one engine into another sequence of it, and into a fresh engine, goes on as it was.
TEST_P(LlamaArchitectureTest, ASnapshotIsBitIdentical) {
  WholeModel whole(path_, {});
  const Transcript transcript = RecordAlone(whole);
  const std::size_t taken_at = kPromptRows / kChunkRows + kGreedySteps / 2;
  Counts counts;
  std::size_t bytes = 0;
  const std::vector<Cuts> all = AllCuts(Layers());
  for (const Cuts& cuts : all) {
    EngineChain chain(path_, cuts, {});
    EngineChain fresh(path_, cuts, {});
    Replay(transcript, 0, taken_at, chain, counts);
    const std::vector<SequenceState> states = chain.Save(0);
    for (const SequenceState& state : states) bytes += state.bytes.size();
    chain.Restore(1, states);
    fresh.Restore(0, states);
    Replay(OnSequence(1, transcript), taken_at, transcript.steps.size(), chain, counts);
    Replay(transcript, taken_at, transcript.steps.size(), fresh, counts);
  }
  Tell("snapshot", counts, all.size());
  RecordProperty("bytes", std::to_string(bytes));
  counts.ExpectIdentical(100);
}

// One stage of two gets the state that another prompt of the same length left.
TEST_P(LlamaArchitectureTest, AStateOfAnotherSessionIsSeen) {
  WholeModel whole(path_, {});
  const Transcript transcript = RecordAlone(whole);
  const std::size_t taken_at = kPromptRows / kChunkRows;
  Counts counts;
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{1}}) {
    EngineChain chain(path_, {Layers() / 2}, {});
    Counts prompt;
    Replay(transcript, 0, taken_at, chain, prompt);
    for (const Step& step : DetourSteps(whole.vocabulary(), kPromptRows)) chain.Run(OnSequence(1, step));
    std::vector<SequenceState> states = chain.Save(0);
    states[wrong] = chain.Save(1)[wrong];
    chain.Restore(2, states);
    Replay(OnSequence(2, transcript), taken_at, transcript.steps.size(), chain, counts);
  }
  Tell("state_control", counts, 1);
  EXPECT_GT(counts.mismatched_rows, counts.rows / 2);
}

TEST_P(LlamaArchitectureTest, ANudgeOfOneMillionthAtTheSeamIsSeen) {
  WholeModel whole(path_, {});
  const Transcript transcript = RecordAlone(whole);
  EngineChain chain(path_, {Layers() / 2}, {});
  std::mt19937 random(1);
  chain.set_seam_filter([&random](std::span<float> hidden) {
    for (float& value : hidden) value *= 1.0F + 1e-6F * (random() % 2 == 0 ? 1.0F : -1.0F);
  });
  Counts counts;
  Replay(transcript, 0, transcript.steps.size(), chain, counts);
  Tell("control", counts, 1);
  EXPECT_GT(counts.mismatched_rows, counts.rows / 2);
}

TEST_P(LlamaArchitectureTest, NeighboursAgreeOnTheirSeam) {
  for (const Cuts& cuts : AllCuts(Layers())) {
    const EngineChain chain(path_, cuts, {});
    for (std::size_t i = 0; i + 1 < chain.engines().size(); ++i) {
      const ShardFacts& giver = chain.engines()[i]->facts();
      const ShardFacts& taker = chain.engines()[i + 1]->facts();
      EXPECT_EQ(giver.output_width, taker.input_width);
      ASSERT_EQ(giver.contract.outputs_size(), 1);
      ASSERT_EQ(taker.contract.inputs_size(), 1);
      EXPECT_EQ(giver.contract.outputs(0).SerializeAsString(), taker.contract.inputs(0).SerializeAsString());
      EXPECT_EQ(giver.contract.gives_token_ids(), taker.contract.needs_token_ids());
      // Who gives ids has taken them.
      if (giver.contract.gives_token_ids()) {
        EXPECT_TRUE(giver.contract.needs_token_ids());
      }
    }
    EXPECT_FALSE(chain.engines().back()->facts().contract.gives_token_ids());
  }
}

// Sequences 0 and 2 of three decode while 1 is closed, until the engine moves 2 into the gap. Its cells, its compressed
// ones and its state must come along: a sequence that never moved says what it would have given.
TEST_P(LlamaArchitectureTest, ASequenceThatIsMovedGoesOnAsItWas) {
  const std::vector<std::uint32_t> prompt = Prompt(TinyVocabulary(), kPromptRows, 4);
  EngineChain moved(path_, {Layers() / 2}, {});
  EngineChain still(path_, {Layers() / 2}, {});
  for (std::size_t at = 0; at < prompt.size(); at += kChunkRows) {
    const auto begin = prompt.begin() + static_cast<std::ptrdiff_t>(at);
    moved.Run({{0, {begin, begin + kChunkRows}, false}});
    moved.Run({{2, {begin, begin + kChunkRows}, false}});
    still.Run({{0, {begin, begin + kChunkRows}, false}});
  }
  for (const auto& engine : moved.engines()) engine->Close(1);
  double worst = 0;
  std::size_t rows = 0;
  for (std::uint32_t step = 0; step < 40; ++step) {
    const std::vector<std::uint32_t> token = {(step * 31 + 7) % TinyVocabulary()};
    const StepLogits found = moved.Run({{0, token}, {2, token}});
    const StepLogits expected = still.Run({{0, token}});
    for (const std::vector<float>& row : found) {
      ++rows;
      worst = std::max(worst, LargestDifference(row, expected.front()));
    }
  }
  std::printf("[ moved    ] %s rows=%zu worst=%.2e\n", GetParam().c_str(), rows, worst);
  EXPECT_EQ(rows, 80U);
  // Rows that are computed together and alone may differ in their last bits, and then in how an activation is rounded.
  // A sequence that lost a part of its memory differs by more than one.
  EXPECT_LT(worst, 0.5);
}

INSTANTIATE_TEST_SUITE_P(All, LlamaArchitectureTest,
                         testing::Values("llama", "qwen2", "qwen3", "qwen3moe", "glm4moe", "gpt-oss", "gemma3",
                                         "deepseek2", "deepseek4", "qwen35", "qwen35moe"),
                         [](const testing::TestParamInfo<std::string>& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Layers of DeepSeek-V4 whose experts are chosen by token id.
TEST(LlamaTokenIdsTest, RowsWithoutTheirIdsAreRefused) {
  SilenceLlama();
  EngineChain chain(TinyModelPath("deepseek4"), {2, 5}, {});
  const ShardFacts& head = chain.engines()[0]->facts();
  ShardEngine& middle = *chain.engines()[1];
  EXPECT_TRUE(head.contract.gives_token_ids());
  EXPECT_TRUE(middle.facts().contract.needs_token_ids());
  EXPECT_FALSE(chain.engines()[2]->facts().contract.needs_token_ids());
  EXPECT_EQ(head.output_width, 4U * 64U);  // all streams of the hyper-connections
  const std::vector<float> hidden(middle.facts().input_width, 0.5F);
  StepSlice slice;
  slice.rows = 1;
  slice.hidden = hidden;
  std::vector<StepResult> results;
  ASSERT_TRUE(middle.Step({&slice, 1}, &results).ok());
  EXPECT_EQ(results[0].status.code(), Code::kMissingTokenIds);
  const std::uint32_t id = 3;
  slice.token_ids = {&id, 1};
  ASSERT_TRUE(middle.Step({&slice, 1}, &results).ok());
  EXPECT_TRUE(results[0].status.ok());
}

TEST(LlamaTokenIdsTest, TheLibraryRefusesRowsWithoutTheirIds) {
  SilenceLlama();
  ChainOptions options;
  options.feed = Feed::kHiddenOnly;
  Stage needs(TinyModelPath("deepseek4"), 2, 5, options);
  Stage does_not(TinyModelPath("deepseek4"), 5, 7, options);
  const std::vector<float> hidden(needs.hidden_width(), 0.5F);
  EXPECT_EQ(needs.Decode({{3, 0, 0, false}}, hidden), -1);
  EXPECT_EQ(does_not.Decode({{3, 0, 0, true}}, hidden), 0);
}

}  // namespace
}  // namespace meshnet::range
