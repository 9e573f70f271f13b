// meshnet-worker: composition root. Exit status: 0 done, 2 wrong command line.
#include <iostream>
#include <string>
#include <vector>

#include "command_line.h"
#include "report.h"
#if MESHNET_WITH_LLAMA
#include "llama_engine.h"
#endif

namespace {

constexpr int kExitUsage = 2;

int ListDevices() {
#if MESHNET_WITH_LLAMA
  std::cout << meshnet::DeviceReport(meshnet::ListLlamaDevices());
#else
  // The arithmetic of FakeEngine runs on no device.
  std::cout << meshnet::DeviceReport({});
#endif
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const meshnet::CommandLine line = meshnet::ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc));
  switch (line.command) {
    case meshnet::Command::kHelp:
      std::cout << meshnet::kUsage;
      return 0;
    case meshnet::Command::kVersion:
      std::cout << meshnet::VersionReport();
      return 0;
    case meshnet::Command::kListDevices:
      return ListDevices();
    case meshnet::Command::kInvalid:
      break;
  }
  std::cerr << "meshnet-worker: " << line.error << "\n" << meshnet::kUsage;
  return kExitUsage;
}
