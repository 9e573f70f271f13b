// meshnet-worker: composition root. Exit status: 0 done, 1 cannot serve, 2 wrong command line.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "engine/fake_engine.h"
#include "process/command_line.h"
#include "process/report.h"
#include "process/serve.h"
#if MESHNET_WITH_LLAMA
#include "engine/llama_devices.h"
#include "engine/llama_engine.h"
#endif

namespace {

constexpr int kExitUsage = 2;

std::string Devices() {
#if MESHNET_WITH_LLAMA
  return meshnet::DeviceReport(meshnet::ListLlamaDevices());
#else
  // The arithmetic of FakeEngine runs on no device.
  return meshnet::DeviceReport({});
#endif
}

int Serve(const meshnet::ServeOptions& options) {
  meshnet::ServiceOptions service;
  service.version_json = meshnet::VersionReport();
  service.devices_json = Devices();
  service.load_fake = meshnet::FakeEngine::Load;
#if MESHNET_WITH_LLAMA
  service.load_llama = meshnet::LoadLlamaEngine;
#endif
  return meshnet::Serve(options, std::move(service));
}

}  // namespace

int main(int argc, char** argv) {
  // ggml would start a debugger on abort. Set before any thread reads the environment.
  setenv("GGML_NO_BACKTRACE", "1", 1);
  const meshnet::CommandLine line = meshnet::ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc));
  switch (line.command) {
    case meshnet::Command::kHelp:
      std::cout << meshnet::kUsage;
      return 0;
    case meshnet::Command::kVersion:
      std::cout << meshnet::VersionReport();
      return 0;
    case meshnet::Command::kListDevices:
      std::cout << Devices();
      return 0;
    case meshnet::Command::kServe:
      return Serve(line.serve);
    case meshnet::Command::kInvalid:
      break;
  }
  std::cerr << "meshnet-worker: " << line.error << "\n" << meshnet::kUsage;
  return kExitUsage;
}
