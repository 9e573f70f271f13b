#include "engine/gguf_limits.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace meshnet {
namespace {

// The limits are those of meshnet.artifact.gguf.limits, with which a node checks a file before its worker opens it.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxTensors = 131'072;
constexpr std::uint64_t kMaxKeys = 65'536;
constexpr std::uint64_t kMaxKeyBytes = 65'535;
constexpr std::uint64_t kMaxNameBytes = 63;
constexpr std::uint64_t kMaxStringBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxArrayElements = std::uint64_t{3} << 20;  // in all arrays together
constexpr std::uint32_t kMaxDimensions = 4;

// Bytes of a scalar by the number of its GGUF type; 0 for strings and arrays. Source: ggml's docs/gguf.md.
constexpr std::array<std::uint64_t, 13> kScalarBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;

class HeaderWalk {
 public:
  HeaderWalk(const std::string& path, std::uint64_t file_bytes)
      : file_(path, std::ios::binary), file_bytes_(file_bytes), left_(std::min(file_bytes, kMaxHeaderBytes)) {}

  Status Walk() {
    std::uint64_t tensors = 0;
    std::uint64_t keys = 0;
    Skip(2 * sizeof(std::uint32_t));  // magic and version
    Read(&tensors);
    Read(&keys);
    Require(tensors <= kMaxTensors, "tensors");
    Require(keys <= kMaxKeys, "keys");
    for (std::uint64_t key = 0; key < keys && status_.ok(); ++key) WalkKey();
    for (std::uint64_t tensor = 0; tensor < tensors && status_.ok(); ++tensor) WalkTensor();
    return status_;
  }

 private:
  void WalkKey() {
    SkipString(kMaxKeyBytes);
    std::uint32_t type = 0;
    Read(&type);
    std::uint64_t count = 1;
    if (type == kArray) {
      Read(&type);
      Read(&count);
      Require(count <= elements_left_, "array elements");
      if (status_.ok()) elements_left_ -= count;
    }
    Require(type < kScalarBytes.size() && type != kArray, "types");
    if (!status_.ok()) return;
    if (type != kString) return Skip(count * kScalarBytes[type]);
    for (std::uint64_t i = 0; i < count && status_.ok(); ++i) SkipString(kMaxStringBytes);
  }

  void WalkTensor() {
    SkipString(kMaxNameBytes);
    std::uint32_t dimensions = 0;
    Read(&dimensions);
    Require(dimensions <= kMaxDimensions, "dimensions");
    Skip(dimensions * sizeof(std::uint64_t) + sizeof(std::uint32_t) + sizeof(std::uint64_t));
  }

  void SkipString(std::uint64_t max_bytes) {
    std::uint64_t bytes = 0;
    Read(&bytes);
    Require(bytes <= max_bytes, "characters");
    Skip(bytes);
  }

  template <typename T>
  void Read(T* value) {
    if (Take(sizeof(T))) file_.read(reinterpret_cast<char*>(value), sizeof(T));
    Require(file_.good(), "bytes");
  }

  void Skip(std::uint64_t bytes) {
    if (Take(bytes)) file_.ignore(static_cast<std::streamsize>(bytes));
    Require(file_.good(), "bytes");
  }

  bool Take(std::uint64_t bytes) {
    if (status_.ok() && bytes > left_) {
      status_ = file_bytes_ > kMaxHeaderBytes ? TooMany("bytes") : Status(Code::kTruncated, "the header is cut off");
    }
    if (status_.ok()) left_ -= bytes;
    return status_.ok();
  }

  void Require(bool condition, const char* what) {
    if (status_.ok() && !condition) status_ = TooMany(what);
  }

  static Status TooMany(const char* what) {
    return {Code::kNotGguf, std::string("the header's ") + what + " are beyond any model's"};
  }

  std::ifstream file_;
  const std::uint64_t file_bytes_;
  std::uint64_t left_;
  std::uint64_t elements_left_ = kMaxArrayElements;
  Status status_;
};

}  // namespace

Status CheckGgufLimits(const std::string& path) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) return {Code::kFileMissing, "cannot tell the size of " + path};
  return HeaderWalk(path, file_bytes).Walk();
}

}  // namespace meshnet
