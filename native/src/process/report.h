// The worker's reports about itself, as JSON for programs (the agent, tests) and people.
#ifndef MESHNET_PROCESS_REPORT_H_
#define MESHNET_PROCESS_REPORT_H_

#include <string>
#include <vector>

#include "engine/device.h"

namespace meshnet {

// Worker, wire and contract versions and the exact class of this build. Ends with a newline.
std::string VersionReport();

// One entry per device, in the library's order. Memory in bytes. Ends with a newline.
std::string DeviceReport(const std::vector<Device>& devices);

}  // namespace meshnet

#endif  // MESHNET_PROCESS_REPORT_H_
