// Lists the compute devices that ggml reports.
#ifndef MESHNET_ENGINE_LLAMA_DEVICES_H_
#define MESHNET_ENGINE_LLAMA_DEVICES_H_

#include <vector>

#include "engine/device.h"

namespace meshnet {

// Returns ggml's devices in ggml's order. Call on one thread only: ggml loads its backends at the first call.
std::vector<Device> ListLlamaDevices();

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_DEVICES_H_
