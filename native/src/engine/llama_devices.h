// Compute devices as ggml sees them. llama_*.cpp are the only files that include llama.h and ggml headers.
#ifndef MESHNET_ENGINE_LLAMA_DEVICES_H_
#define MESHNET_ENGINE_LLAMA_DEVICES_H_

#include <vector>

#include "engine/device.h"

namespace meshnet {

// Returns ggml's devices in its order. Call from one thread: backends register on first use.
std::vector<Device> ListLlamaDevices();

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_DEVICES_H_
