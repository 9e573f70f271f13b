// Build and load settings that must be equal on every stage before a route may promise bit-exact results.
#ifndef MESHNET_ENGINE_EXACT_CLASS_H_
#define MESHNET_ENGINE_EXACT_CLASS_H_

#include <cstdint>
#include <string>

namespace meshnet {

// The defaults are the settings of this build if Load asks for nothing else.
struct ExactClass {
  std::string pin;               // upstream commit, 40 hex digits
  std::string patched_tree;      // SHA-256 of the patched source, 64 hex digits
  std::string backend;           // "cpu", or "fake" in a build without llama.cpp
  std::string instruction_sets;  // space separated; empty if the compiler's baseline is used
  bool repack = true;            // weights rearranged for the CPU's kernels at load
  std::string flash_attention = "auto";
  std::string kv_type_k = "f16";
  std::string kv_type_v = "f16";
  std::uint32_t ubatch_rows = 512;
};

// The exact class of this build with its defaults.
ExactClass BuildExactClass();

}  // namespace meshnet

#endif  // MESHNET_ENGINE_EXACT_CLASS_H_
