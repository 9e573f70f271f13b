// Build and load settings that must be equal on every stage before a route may promise bit-exact results.
#ifndef MESHNET_ENGINE_EXACT_CLASS_H_
#define MESHNET_ENGINE_EXACT_CLASS_H_

#include <cstdint>
#include <string>

namespace meshnet {

// The settings of one engine. BuildExactClass fills in the members that have no initial value here.
struct ExactClass {
  std::string pin;               // commit of llama.cpp, 40 hex digits
  std::string patched_tree;      // SHA-256 of llama.cpp's source with our patches, 64 hex digits
  std::string backend;           // "cpu", or "fake" in a build without llama.cpp
  std::string instruction_sets;  // separated by spaces; empty if the build uses the compiler's baseline
  bool repack = true;            // whether a load rearranges weights for the CPU's kernels
  std::string flash_attention = "auto";
  std::string kv_type_k = "f16";
  std::string kv_type_v = "f16";
  std::uint32_t ubatch_rows = 512;
};

// The exact class of this build if a load changes no setting.
ExactClass BuildExactClass();

}  // namespace meshnet

#endif  // MESHNET_ENGINE_EXACT_CLASS_H_
