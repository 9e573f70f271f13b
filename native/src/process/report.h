// Reports about the worker's build and the machine's devices, as JSON for programs (the agent, tests) and people.
#ifndef MESHNET_PROCESS_REPORT_H_
#define MESHNET_PROCESS_REPORT_H_

#include <string>
#include <vector>

#include "engine/device.h"

namespace meshnet {

// Versions of the worker, the wire, the contract, llama.cpp and ggml, and the exact class of this build. Ends with a
// newline.
std::string VersionReport();

// One entry for each device, in the order of `devices`, with memory in bytes. Ends with a newline.
std::string DeviceReport(const std::vector<Device>& devices);

}  // namespace meshnet

#endif  // MESHNET_PROCESS_REPORT_H_
