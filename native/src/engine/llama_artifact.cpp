#include "engine/llama_artifact.h"

#include <gguf.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>

#include "engine/gguf_limits.h"
#include "engine/llama_figures.h"
#include "engine/llama_metadata.h"

namespace meshnet {
namespace {

// Architectures whose graphs the patched llama.cpp can cut into ranges.
constexpr std::array kArchitectures = {"llama",  "qwen2",     "qwen3",     "qwen3moe", "glm4moe",  "gpt-oss",
                                       "gemma3", "deepseek2", "deepseek4", "qwen35",   "qwen35moe"};
constexpr std::uint32_t kMaxParts = 1000;
constexpr std::uint32_t kMaxLayers = 4096;  // a limit on the search for each layer's tensors by name

struct Free {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
using Header = std::unique_ptr<gguf_context, Free>;

Result<Header> ReadHeader(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return Status(Code::kFileMissing, "no such file: " + path);
  std::array<char, 4> magic{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(magic.data(), magic.size()) || std::string_view(magic.data(), magic.size()) != GGUF_MAGIC) {
    return Status(Code::kNotGguf, "the file does not begin as GGUF");
  }
  const Status status = CheckGgufLimits(path);
  if (!status.ok()) return status;
  Header header(gguf_init_from_file(path.c_str(), {/*no_alloc=*/true, /*ctx=*/nullptr}));
  if (header == nullptr) return Status(Code::kTruncated, "the GGUF header is cut off or damaged");
  const Status types = CheckTensorTypes(header.get());
  if (!types.ok()) return types;
  return header;
}

// Checks that every tensor lies inside the file, so that a file that is cut off is refused before llama.cpp reads it.
Status CheckExtents(const gguf_context* header, const std::string& path) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) return {Code::kFileMissing, "cannot tell the size of " + path};
  const std::uint64_t data_offset = gguf_get_data_offset(header);
  for (std::int64_t i = 0; i < gguf_get_n_tensors(header); ++i) {
    const std::uint64_t offset = gguf_get_tensor_offset(header, i);
    const std::uint64_t size = gguf_get_tensor_size(header, i);
    if (data_offset > file_bytes || offset > file_bytes - data_offset || size > file_bytes - data_offset - offset) {
      return {Code::kTruncated, "the file ends before its tensors do"};
    }
  }
  return Status::Ok();
}

// The path of a part, counted from 1, by the names that llama.cpp expects: "<name>-00001-of-00003.gguf". Empty if
// `first` is not so named.
std::string PartPath(const std::string& first, std::uint32_t part, std::uint32_t count) {
  std::array<char, 32> from{};
  std::array<char, 32> to{};
  std::snprintf(from.data(), from.size(), "-%05u-of-%05u.gguf", 1u, count);
  std::snprintf(to.data(), to.size(), "-%05u-of-%05u.gguf", part, count);
  const std::string suffix = from.data();
  if (first.size() < suffix.size() || !first.ends_with(suffix)) return {};
  return first.substr(0, first.size() - suffix.size()) + to.data();
}

// Bytes of each tensor, by its name.
using Tensors = std::map<std::string, std::uint64_t, std::less<>>;

void AddTensors(const gguf_context* header, Tensors* tensors) {
  for (std::int64_t i = 0; i < gguf_get_n_tensors(header); ++i) {
    tensors->emplace(gguf_get_tensor_name(header, i), gguf_get_tensor_size(header, i));
  }
}

Status CheckParts(const std::string& first, std::uint32_t count, Tensors* tensors) {
  for (std::uint32_t part = 2; part <= count; ++part) {
    const std::string path = PartPath(first, part, count);
    if (path.empty()) return {Code::kFileMissing, "the file is a later part of a split file; name the first part"};
    const Result<Header> header = ReadHeader(path);
    if (!header.ok()) return header.status();
    const Status status = CheckExtents(header.value().get(), path);
    if (!status.ok()) return status;
    AddTensors(header.value().get(), tensors);
  }
  return Status::Ok();
}

std::string LayerTensor(std::uint32_t layer, const char* name) { return "blk." + std::to_string(layer) + "." + name; }

// Number of layers at the model's end that only draft tokens. A DeepSeek-V4 file may count such layers in its header
// (`counted`) without having their tensors; llama.cpp finds that out in the same way.
std::uint32_t DraftLayers(const LlamaArtifact& artifact, std::uint32_t counted, const Tensors& tensors) {
  if (counted == 0) return 0;  // otherwise smaller than the number of blocks: CheckFigures
  const std::string probe = LayerTensor(artifact.n_layers - counted, "nextn.eh_proj.weight");
  return artifact.architecture == "deepseek4" && !tensors.contains(probe) ? 0 : counted;
}

// Bytes of the blocks from number `layers` up to `blocks`. They draft tokens and belong to the tail.
std::uint64_t NextnBytes(std::uint32_t layers, std::uint32_t blocks, const Tensors& tensors) {
  std::uint64_t bytes = 0;
  for (std::uint32_t block = layers; block < blocks; ++block) {
    const std::string prefix = LayerTensor(block, "");
    for (auto tensor = tensors.lower_bound(prefix); tensor != tensors.end(); ++tensor) {
      if (!tensor->first.starts_with(prefix)) break;
      bytes += tensor->second;
    }
  }
  return bytes;
}

// One more than the last layer that chooses experts by token id, or by whether a row has a token id (an image's rows
// have none); 0 if there is no such layer. Source: patch 0014, llama_model::needs_token_ids;
// meshnet.artifact.model.seam has the same rule.
std::uint32_t TokenIdLayersEnd(std::uint32_t layers, const Tensors& tensors) {
  for (std::uint32_t layer = layers; layer > 0; --layer) {
    if (tensors.contains(LayerTensor(layer - 1, "ffn_gate_tid2eid.weight")) ||
        tensors.contains(LayerTensor(layer - 1, "exp_probs_b_vl.bias"))) {
      return layer;
    }
  }
  return 0;
}

std::string ServedArchitectures() {
  std::string all;
  for (const char* known : kArchitectures) all.append(all.empty() ? "" : ", ").append(known);
  return all;
}

}  // namespace

Result<LlamaArtifact> InspectArtifact(const std::string& path) {
  const Result<Header> read = ReadHeader(path);
  if (!read.ok()) return read.status();
  const gguf_context* header = read.value().get();
  LlamaArtifact artifact;
  artifact.architecture = FindString(header, "general.architecture");
  bool is_known = false;
  for (const char* known : kArchitectures) is_known = is_known || artifact.architecture == known;
  if (!is_known) {
    return Status(Code::kUnsupportedArchitecture, "architecture " + Quoted(artifact.architecture) +
                                                      " is not served; these are: " + ServedArchitectures());
  }
  const auto number = [&](const char* suffix, std::uint32_t fallback) {
    return FindNumber(header, artifact.architecture + suffix).value_or(fallback);
  };
  artifact.n_layers = number(".block_count", 0);
  artifact.context_length = number(".context_length", 0);
  artifact.embedding_width = number(".embedding_length", 0);
  artifact.n_parts = FindNumber(header, "split.count").value_or(1);
  if (artifact.n_layers == 0 || artifact.embedding_width == 0 || artifact.context_length == 0) {
    return Status(Code::kTruncated, "the GGUF header lacks the model's dimensions");
  }
  if (artifact.n_layers > kMaxLayers) return Status(Code::kNotGguf, "the number of layers is out of range");
  Status status = CheckFigures(header, artifact.architecture);
  if (!status.ok()) return status;
  if (artifact.n_parts < 1 || artifact.n_parts > kMaxParts)
    return Status(Code::kNotGguf, "the number of parts is out of range");
  status = CheckExtents(header, path);
  Tensors tensors;
  AddTensors(header, &tensors);
  if (status.ok()) status = CheckParts(path, artifact.n_parts, &tensors);
  if (!status.ok()) return status;
  const std::uint32_t blocks = artifact.n_layers;
  artifact.n_layers -= DraftLayers(artifact, number(".nextn_predict_layers", 0), tensors);
  artifact.token_id_layers_end = TokenIdLayersEnd(artifact.n_layers, tensors);
  artifact.nextn_bytes = NextnBytes(artifact.n_layers, blocks, tensors);
  return artifact;
}

}  // namespace meshnet
