// The main program that meshnet-worker and meshnet-worker-measure share: parses the command line and runs its command.
#ifndef MESHNET_PROCESS_WORKER_PROGRAM_H_
#define MESHNET_PROCESS_WORKER_PROGRAM_H_

#include <functional>
#include <vector>

#include "engine/device.h"
#include "process/serve.h"

namespace meshnet {

// The parts in which the two programs differ.
struct WorkerProgram {
  std::function<std::vector<Device>()> list_devices;  // empty in a build without llama.cpp
  EngineLoader load_llama;                            // empty in a build without llama.cpp
  Measurement measurement;
};

// Runs the command that the command line names. Returns the exit status: 0 success, 1 the worker cannot serve, 2 the
// command line is wrong.
int RunProgram(const WorkerProgram& program, int argc, char** argv);

}  // namespace meshnet

#endif  // MESHNET_PROCESS_WORKER_PROGRAM_H_
