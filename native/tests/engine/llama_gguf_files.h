// GGUF files cut up for tests: multi-part files, and sparse copies that hold only some tensors.
#ifndef MESHNET_TESTS_ENGINE_LLAMA_GGUF_FILES_H_
#define MESHNET_TESTS_ENGINE_LLAMA_GGUF_FILES_H_

#include <gguf.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/llama_tiny_model.h"

namespace meshnet::range {

// A folder of this process, removed with everything in it.
class ScratchFolder {
 public:
  ScratchFolder() : path_(MakeFolder()) {}
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  static std::filesystem::path MakeFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "llama_range_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder");
    return name;
  }

  std::filesystem::path path_;
};

// Opens `path` with all tensor data in memory.
inline GgufPtr OpenGguf(const std::string& path, GgmlPtr& tensors, bool with_data) {
  ggml_context* context = nullptr;
  GgufPtr gguf(gguf_init_from_file(path.c_str(), {!with_data, &context}));
  tensors.reset(context);
  if (!gguf) throw std::runtime_error("cannot read " + path);
  return gguf;
}

// Writes parts named as llama.cpp's gguf-split names them; `sizes` are tensors per part, the last takes the rest.
// Returns the paths in order.
inline std::vector<std::string> SplitGguf(const std::string& path, const std::string& prefix, std::vector<int> sizes) {
  GgmlPtr tensors;
  const GgufPtr whole = OpenGguf(path, tensors, true);
  const int total = static_cast<int>(gguf_get_n_tensors(whole.get()));
  const int parts = static_cast<int>(sizes.size()) + 1;
  std::vector<std::string> paths;
  int next = 0;
  for (int part = 0; part < parts; ++part) {
    const GgufPtr out(gguf_init_empty());
    if (part == 0) gguf_set_kv(out.get(), whole.get());
    gguf_set_val_u16(out.get(), "split.no", static_cast<std::uint16_t>(part));
    gguf_set_val_u16(out.get(), "split.count", static_cast<std::uint16_t>(parts));
    gguf_set_val_i32(out.get(), "split.tensors.count", total);
    const int end = part + 1 < parts ? next + sizes[static_cast<std::size_t>(part)] : total;
    for (; next < end; ++next)
      gguf_add_tensor(out.get(), ggml_get_tensor(tensors.get(), gguf_get_tensor_name(whole.get(), next)));
    std::array<char, 40> suffix{};
    std::snprintf(suffix.data(), suffix.size(), "-%05d-of-%05d.gguf", part + 1, parts);
    paths.push_back(prefix + suffix.data());
    if (!gguf_write_to_file(out.get(), paths.back().c_str(), false)) throw std::runtime_error("cannot write a part");
  }
  return paths;
}

// Copies the header and the tensors that `wanted` names; everything else is a hole. Full length.
inline void SparseCopy(const std::string& path, const std::string& target,
                       const std::function<bool(const std::string&)>& wanted) {
  GgmlPtr tensors;
  const GgufPtr gguf = OpenGguf(path, tensors, false);
  std::ifstream source(path, std::ios::binary);
  std::ofstream(target, std::ios::binary).close();
  std::filesystem::resize_file(target, std::filesystem::file_size(path));
  std::fstream out(target, std::ios::binary | std::ios::in | std::ios::out);
  const auto copy = [&](std::size_t offset, std::size_t size) {
    std::vector<char> bytes(size);
    source.seekg(static_cast<std::streamoff>(offset)).read(bytes.data(), static_cast<std::streamsize>(size));
    out.seekp(static_cast<std::streamoff>(offset)).write(bytes.data(), static_cast<std::streamsize>(size));
  };
  const std::size_t data = gguf_get_data_offset(gguf.get());
  copy(0, data);
  for (std::int64_t i = 0; i < gguf_get_n_tensors(gguf.get()); ++i)
    if (wanted(gguf_get_tensor_name(gguf.get(), i)))
      copy(data + gguf_get_tensor_offset(gguf.get(), i), gguf_get_tensor_size(gguf.get(), i));
  if (!source || !out.flush()) throw std::runtime_error("sparse copy failed");
}

inline std::size_t AllocatedBytes(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) throw std::runtime_error("no " + path);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

// The block number of a layer's tensor, -1 for any other.
inline int LayerOfTensor(const std::string& name) {
  int layer = -1;
  return std::sscanf(name.c_str(), "blk.%d.", &layer) == 1 ? layer : -1;
}

}  // namespace meshnet::range

#endif  // MESHNET_TESTS_ENGINE_LLAMA_GGUF_FILES_H_
