// What a layer range takes and gives: widths, missing rows, hidden rows without logits; snapshots, memory, sparse
// files.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/llama_gguf_files.h"
#include "engine/llama_range_compare.h"
#include "engine/llama_tiny_model.h"

namespace meshnet::range {
namespace {

constexpr int kLayers = 4;

class LlamaRangeInputTest : public testing::Test {
 protected:
  LlamaRangeInputTest() {
    SilenceLlama();
    path_ = (folder_.path() / "tiny.gguf").string();
    TinyModelWriter({.architecture = "llama"}).Write(path_);
    options_.context_cells = 256;
    options_.sequences = 2;
  }

  ScratchFolder folder_;
  std::string path_;
  ChainOptions options_;
};

Rows SomeRows(int count, llama_pos first = 0, llama_seq_id sequence = 0) {
  Rows rows;
  for (int i = 0; i < count; ++i) rows.push_back({(7 * i + 3 + first) % 128, first + i, sequence, true});
  return rows;
}

std::vector<std::uint8_t> SaveSequence(Stage& stage, llama_seq_id sequence) {
  std::vector<std::uint8_t> bytes(llama_state_seq_get_size(stage.context(), sequence));
  EXPECT_EQ(llama_state_seq_get_data(stage.context(), bytes.data(), bytes.size(), sequence), bytes.size());
  return bytes;
}

std::size_t RestoreSequence(Stage& stage, const std::vector<std::uint8_t>& bytes, llama_seq_id sequence) {
  return llama_state_seq_set_data(stage.context(), bytes.data(), bytes.size(), sequence);
}

TEST_F(LlamaRangeInputTest, ARowOfAnotherWidthIsRefused) {
  Stage tail(path_, 2, 4, options_);
  BatchPtr batch(llama_batch_ext_init(tail.context()));
  const std::vector<float> values(4 * tail.hidden_width());
  const int index = llama_batch_ext_add_token(batch.get(), 0, 5);
  for (const std::size_t width : {std::size_t{0}, tail.hidden_width() - 1, 2 * tail.hidden_width()})
    EXPECT_FALSE(llama_batch_ext_set_embd_token(batch.get(), index, {values.data(), 1, width})) << width;
  EXPECT_FALSE(llama_batch_ext_set_embd_token(batch.get(), index, {nullptr, 1, tail.hidden_width()}));
  EXPECT_TRUE(llama_batch_ext_set_embd_token(batch.get(), index, {values.data(), 1, tail.hidden_width()}));
}

TEST_F(LlamaRangeInputTest, TokensAloneAreRefusedWhereHiddenRowsAreNeeded) {
  for (const auto& [begin, end] : {std::pair{1, 3}, std::pair{2, 4}}) {
    Stage stage(path_, begin, end, options_);
    EXPECT_EQ(stage.Decode(SomeRows(3), {}), -1);
    EXPECT_EQ(llama_memory_seq_pos_max(stage.memory(), 0), -1);
    EXPECT_TRUE(stage.Hidden().empty());
  }
}

TEST_F(LlamaRangeInputTest, HiddenRowsAreThereWithoutLogitsAndGoneAfterAFailure) {
  Stage head(path_, 0, 2, options_);
  EXPECT_TRUE(head.Hidden().empty());
  Rows rows = SomeRows(5);
  for (Row& row : rows) row.wants_logits = false;
  ASSERT_EQ(head.Decode(rows, {}), 0);
  EXPECT_EQ(head.Hidden().size(), 5 * head.hidden_width());
  EXPECT_EQ(llama_get_logits(head.context()), nullptr);
  EXPECT_EQ(llama_get_logits_ith(head.context(), 0), nullptr);
  EXPECT_EQ(head.Decode(SomeRows(2, 40), {}), -1);  // A gap in the positions.
  EXPECT_TRUE(head.Hidden().empty());
  EXPECT_EQ(llama_get_hidden(head.context()), nullptr);
}

TEST_F(LlamaRangeInputTest, ATailAndAWholeModelGiveNoHiddenRows) {
  Stage whole(path_, 0, 0, options_);
  ASSERT_EQ(whole.Decode(SomeRows(5), {}), 0);
  EXPECT_EQ(llama_get_hidden(whole.context()), nullptr);
  EXPECT_EQ(llama_n_hidden(whole.context()), 0);
}

TEST_F(LlamaRangeInputTest, AskingForEmbeddingsDoesNotEndTheProcess) {
  Stage head(path_, 0, 2, options_);
  llama_set_embeddings(head.context(), true);
  ASSERT_EQ(head.Decode(SomeRows(5), {}), 0);
  EXPECT_EQ(head.Hidden().size(), 5 * head.hidden_width());
}

TEST_F(LlamaRangeInputTest, ASnapshotContinuesBitIdenticallyInItsOwnRange) {
  Chain whole(path_, {}, 0, options_);
  Chain chain(path_, {1, 3}, kLayers, options_);
  Chain fresh(path_, {1, 3}, kLayers, options_);
  Counts counts;
  DecodeAndCompare(whole, chain, SomeRows(12), counts);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const auto bytes = SaveSequence(chain.stage(i), 0);
    EXPECT_EQ(RestoreSequence(chain.stage(i), bytes, 1), bytes.size());
    EXPECT_EQ(RestoreSequence(fresh.stage(i), bytes, 0), bytes.size());
  }
  const llama_pos used = 12;
  llama_memory_seq_cp(whole.stage(0).memory(), 0, 1, -1, -1);
  DecodeAndCompare(whole, chain, SomeRows(6, used, 1), counts);
  DecodeAndCompare(whole, fresh, SomeRows(6, used, 0), counts);
  counts.Print("snapshot");
  counts.ExpectIdentical(24);
}

TEST_F(LlamaRangeInputTest, ASnapshotOfAnotherRangeIsRefusedAndChangesNothing) {
  Stage whole(path_, 0, 0, options_);
  Stage complete(path_, 0, kLayers, options_);
  Stage head(path_, 0, 2, options_);
  Stage tail(path_, 2, 4, options_);
  Stage twin(path_, 2, 4, options_);
  ASSERT_EQ(whole.Decode(SomeRows(9), {}), 0);
  ASSERT_EQ(complete.Decode(SomeRows(9), {}), 0);
  ASSERT_EQ(head.Decode(SomeRows(9), {}), 0);
  ASSERT_EQ(tail.Decode(SomeRows(9), head.Hidden()), 0);
  ASSERT_EQ(twin.Decode(SomeRows(4), head.Hidden().first(4 * head.hidden_width())), 0);
  ASSERT_EQ(SaveSequence(head, 0).size(), SaveSequence(tail, 0).size());

  int refused = 0;
  const std::vector<std::pair<Stage*, Stage*>> wrong = {
      {&head, &twin}, {&whole, &twin}, {&tail, &head}, {&tail, &whole}, {&head, &complete}};
  for (const auto& [from, to] : wrong) {
    const llama_pos before = llama_memory_seq_pos_max(to->memory(), 0);
    refused += RestoreSequence(*to, SaveSequence(*from, 0), 0) == 0;
    EXPECT_EQ(llama_memory_seq_pos_max(to->memory(), 0), before);
  }
  EXPECT_EQ(refused, static_cast<int>(wrong.size()));
  EXPECT_GT(RestoreSequence(twin, SaveSequence(tail, 0), 0), 0u);
  EXPECT_GT(RestoreSequence(complete, SaveSequence(whole, 0), 0), 0u);
  EXPECT_EQ(SaveSequence(whole, 0), SaveSequence(complete, 0));
  std::printf("[ snapshot ] refused=%d of %zu\n", refused, wrong.size());
}

TEST_F(LlamaRangeInputTest, StateFilesAreRefusedAcrossRangesToo) {
  Stage head(path_, 0, 2, options_);
  Stage tail(path_, 2, 4, options_);
  Stage twin(path_, 0, 2, options_);
  const Rows rows = SomeRows(9);
  ASSERT_EQ(head.Decode(rows, {}), 0);
  const llama_token token = 5;
  const std::string sequence_file = (folder_.path() / "sequence.bin").string();
  const std::string state_file = (folder_.path() / "state.bin").string();
  ASSERT_GT(llama_state_seq_save_file(head.context(), sequence_file.c_str(), 0, &token, 1), 0u);
  ASSERT_TRUE(llama_state_save_file(head.context(), state_file.c_str(), &token, 1));
  llama_token out = 0;
  std::size_t count = 0;
  EXPECT_EQ(llama_state_seq_load_file(tail.context(), sequence_file.c_str(), 0, &out, 1, &count), 0u);
  EXPECT_FALSE(llama_state_load_file(tail.context(), state_file.c_str(), &out, 1, &count));
  EXPECT_GT(llama_state_seq_load_file(twin.context(), sequence_file.c_str(), 0, &out, 1, &count), 0u);
  EXPECT_TRUE(llama_state_load_file(twin.context(), state_file.c_str(), &out, 1, &count));
  EXPECT_EQ(llama_memory_seq_pos_max(twin.memory(), 0), 8);
}

TEST_F(LlamaRangeInputTest, ARangePaysForItsOwnLayersOnly) {
  Stage whole(path_, 0, 0, options_);
  Chain chain(path_, {1, 3}, kLayers, options_);
  chain.Decode(SomeRows(8));
  ASSERT_EQ(whole.Decode(SomeRows(8), {}), 0);
  std::uint64_t weights = 0;
  std::vector<std::size_t> states;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    weights += llama_model_size(chain.stage(i).model());
    states.push_back(llama_state_seq_get_size(chain.stage(i).context(), 0));
  }
  EXPECT_EQ(weights, llama_model_size(whole.model()));
  EXPECT_EQ(states[0], states[2]);
  const std::size_t layer_bytes = states[1] - states[0];  // Two layers against one.
  EXPECT_EQ(layer_bytes, 8 * 2 * 32 * sizeof(std::uint16_t) + 2 * (4 + 8));
}

TEST_F(LlamaRangeInputTest, ASparseFileWithTheOwnedTensorsIsEnough) {
  const auto owned = [](const std::string& name) { return LayerOfTensor(name) == 1 || LayerOfTensor(name) == 2; };
  const auto too_few = [](const std::string& name) { return LayerOfTensor(name) == 1; };
  const std::string sparse = (folder_.path() / "sparse.gguf").string();
  const std::string holes = (folder_.path() / "holes.gguf").string();
  SparseCopy(path_, sparse, owned);
  SparseCopy(path_, holes, too_few);
  EXPECT_LT(AllocatedBytes(sparse), AllocatedBytes(path_));
  for (const llama_load_mode mode : {LLAMA_LOAD_MODE_MMAP, LLAMA_LOAD_MODE_NONE}) {
    options_.load_mode = mode;
    Counts counts;
    Counts control;
    for (const auto& [file, into] : {std::pair{&sparse, &counts}, std::pair{&holes, &control}}) {
      Chain whole(path_, {}, 0, options_);
      std::vector<std::unique_ptr<Stage>> stages;
      stages.push_back(std::make_unique<Stage>(path_, 0, 1, options_));
      stages.push_back(std::make_unique<Stage>(*file, 1, 3, options_));
      stages.push_back(std::make_unique<Stage>(path_, 3, 4, options_));
      Chain chain(std::move(stages));
      DecodeAndCompare(whole, chain, SomeRows(12), *into);
    }
    counts.Print("sparse");
    control.Print("control_sparse_without_an_owned_layer");
    counts.ExpectIdentical(12);
    EXPECT_EQ(control.mismatched_rows, control.rows);
  }
}

}  // namespace
}  // namespace meshnet::range
