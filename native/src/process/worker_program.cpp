#include "process/worker_program.h"

#include <cstdlib>
#include <iostream>
#include <string>

#include "engine/fake_engine.h"
#include "process/command_line.h"
#include "process/report.h"

namespace meshnet {
namespace {

constexpr int kExitUsage = 2;

// FakeEngine, the only engine of a build without llama.cpp, runs on no device.
std::string Devices(const WorkerProgram& program) {
  return DeviceReport(program.list_devices ? program.list_devices() : std::vector<Device>());
}

int ServeProgram(const WorkerProgram& program, const ServeOptions& options) {
  ServiceOptions service;
  service.version_json = VersionReport();
  service.devices_json = Devices(program);
  service.load_fake = FakeEngine::Load;
  service.load_llama = program.load_llama;
  return Serve(options, std::move(service), program.measurement);
}

}  // namespace

int RunProgram(const WorkerProgram& program, int argc, char** argv) {
  // Without this variable, ggml starts a debugger when it aborts. Set here, before another thread reads the
  // environment.
  setenv("GGML_NO_BACKTRACE", "1", 1);
  const CommandLine line = ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc));
  switch (line.command) {
    case Command::kHelp:
      std::cout << kUsage;
      return 0;
    case Command::kVersion:
      std::cout << VersionReport();
      return 0;
    case Command::kListDevices:
      std::cout << Devices(program);
      return 0;
    case Command::kServe:
      return ServeProgram(program, line.serve);
    case Command::kInvalid:
      break;
  }
  std::cerr << "meshnet-worker: " << line.error << "\n" << kUsage;
  return kExitUsage;
}

}  // namespace meshnet
