#include "engine/llama_devices.h"

#include <ggml-backend.h>

namespace meshnet {
namespace {

// The parameter's type needs the word `enum`, because ggml has a function with the same name.
const char* TypeName(enum ggml_backend_dev_type type) {
  switch (type) {
    case GGML_BACKEND_DEVICE_TYPE_CPU:
      return "cpu";
    case GGML_BACKEND_DEVICE_TYPE_GPU:
      return "gpu";
    case GGML_BACKEND_DEVICE_TYPE_IGPU:
      return "integrated-gpu";
    case GGML_BACKEND_DEVICE_TYPE_ACCEL:
      return "accelerator";
    case GGML_BACKEND_DEVICE_TYPE_META:
      return "meta";
  }
  return "unknown";
}

}  // namespace

std::vector<Device> ListLlamaDevices() {
  ggml_backend_load_all();
  std::vector<Device> devices;
  for (std::size_t index = 0; index < ggml_backend_dev_count(); ++index) {
    ggml_backend_dev_t handle = ggml_backend_dev_get(index);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ggml_backend_dev_memory(handle, &free_bytes, &total_bytes);
    devices.push_back({ggml_backend_dev_name(handle), ggml_backend_dev_description(handle),
                       TypeName(ggml_backend_dev_type(handle)), free_bytes, total_bytes});
  }
  return devices;
}

}  // namespace meshnet
