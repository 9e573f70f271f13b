// What is read of a GGUF header before llama.cpp sees the file: layers, and where token ids are needed.
#include "engine/llama_artifact.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/llama_gguf_files.h"

namespace meshnet {
namespace {

class LlamaArtifactTest : public testing::Test {
 protected:
  // A file of one-element tensors with these names.
  std::string Write(const std::string& architecture, std::uint32_t blocks, std::uint32_t drafting,
                    const std::vector<std::string>& tensors) {
    const range::GgufPtr gguf(gguf_init_empty());
    const auto number = [&](const char* key, std::uint32_t value) {
      gguf_set_val_u32(gguf.get(), (architecture + key).c_str(), value);
    };
    gguf_set_val_str(gguf.get(), "general.architecture", architecture.c_str());
    number(".block_count", blocks);
    number(".context_length", 512);
    number(".embedding_length", 32);
    if (drafting > 0) number(".nextn_predict_layers", drafting);
    const range::GgmlPtr context(ggml_init({std::size_t{1} << 20, nullptr, false}));
    for (const std::string& name : tensors) {
      ggml_tensor* tensor = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1);
      ggml_set_name(tensor, name.c_str());
      gguf_add_tensor(gguf.get(), tensor);
    }
    const std::string path = (folder_.path() / (std::to_string(files_++) + ".gguf")).string();
    EXPECT_TRUE(gguf_write_to_file(gguf.get(), path.c_str(), false));
    return path;
  }

  LlamaArtifact Inspect(const std::string& path) {
    const Result<LlamaArtifact> artifact = InspectArtifact(path);
    EXPECT_TRUE(artifact.ok()) << artifact.status().message();
    return artifact.ok() ? artifact.value() : LlamaArtifact{};
  }

  range::ScratchFolder folder_;
  int files_ = 0;
};

TEST_F(LlamaArtifactTest, LayersThatDraftTokensAreNotCounted) {
  EXPECT_EQ(Inspect(Write("glm4moe", 5, 0, {"output_norm.weight"})).n_layers, 5U);
  EXPECT_EQ(Inspect(Write("glm4moe", 5, 1, {"output_norm.weight"})).n_layers, 4U);
  // Only where the file has them.
  EXPECT_EQ(Inspect(Write("deepseek4", 5, 1, {"output_norm.weight"})).n_layers, 5U);
  EXPECT_EQ(Inspect(Write("deepseek4", 5, 1, {"blk.4.nextn.eh_proj.weight"})).n_layers, 4U);
  EXPECT_EQ(InspectArtifact(Write("glm4moe", 5, 5, {"output_norm.weight"})).status().code(), Code::kNotGguf);
}

TEST_F(LlamaArtifactTest, MoreLayersThanAnyModelHasAreRefused) {
  EXPECT_TRUE(InspectArtifact(Write("llama", 4096, 0, {"output_norm.weight"})).ok());
  EXPECT_EQ(InspectArtifact(Write("llama", 4097, 0, {"output_norm.weight"})).status().code(), Code::kNotGguf);
  EXPECT_EQ(InspectArtifact(Write("llama", 0xFFFFFFFF, 0, {"output_norm.weight"})).status().code(), Code::kNotGguf);
}

TEST_F(LlamaArtifactTest, AnArchitectureIsQuotedInLettersThatPrint) {
  const Status status = InspectArtifact(Write("\x1b[2J\xff\n", 4, 0, {"output_norm.weight"})).status();
  EXPECT_EQ(status.code(), Code::kUnsupportedArchitecture);
  EXPECT_TRUE(status.message().starts_with("architecture \"?[2J??\" is not served")) << status.message();
}

TEST_F(LlamaArtifactTest, TokenIdsAreNeededUpToTheLastLayerThatReadsThem) {
  const auto end = [this](const std::vector<std::string>& tensors) {
    return Inspect(Write("deepseek4", 6, 0, tensors)).token_id_layers_end;
  };
  EXPECT_EQ(end({"blk.0.attn_norm.weight"}), 0U);
  EXPECT_EQ(end({"blk.0.ffn_gate_tid2eid.weight", "blk.2.ffn_gate_tid2eid.weight"}), 3U);
  EXPECT_EQ(end({"blk.0.ffn_gate_tid2eid.weight", "blk.5.exp_probs_b_vl.bias"}), 6U);
}

TEST_F(LlamaArtifactTest, TensorsOfEveryPartAreLookedAt) {
  const std::string whole = Write("deepseek4", 6, 1,
                                  {"token_embd.weight", "blk.0.ffn_gate_tid2eid.weight",
                                   "blk.2.ffn_gate_tid2eid.weight", "blk.5.nextn.eh_proj.weight"});
  const std::vector<std::string> parts = range::SplitGguf(whole, (folder_.path() / "part").string(), {1, 1});
  ASSERT_EQ(parts.size(), 3U);
  const LlamaArtifact artifact = Inspect(parts.front());
  EXPECT_EQ(artifact.n_parts, 3U);
  EXPECT_EQ(artifact.n_layers, 5U);
  EXPECT_EQ(artifact.token_id_layers_end, 3U);
}

}  // namespace
}  // namespace meshnet
