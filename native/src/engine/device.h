// A compute device, such as a CPU or a GPU, as ggml reports it.
#ifndef MESHNET_ENGINE_DEVICE_H_
#define MESHNET_ENGINE_DEVICE_H_

#include <cstdint>
#include <string>

namespace meshnet {

struct Device {
  std::string name;
  std::string description;
  std::string type;  // "cpu", "gpu", "integrated-gpu", "accelerator" or "meta"
  std::uint64_t memory_free_bytes = 0;
  std::uint64_t memory_total_bytes = 0;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_DEVICE_H_
