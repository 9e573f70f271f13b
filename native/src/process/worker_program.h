// What meshnet-worker and meshnet-worker-measure have in common: the command line and what it asks for.
#ifndef MESHNET_PROCESS_WORKER_PROGRAM_H_
#define MESHNET_PROCESS_WORKER_PROGRAM_H_

#include <functional>
#include <vector>

#include "engine/device.h"
#include "process/serve.h"

namespace meshnet {

// The parts that main.cpp and measure/measure_main.cpp put together.
struct WorkerProgram {
  std::function<std::vector<Device>()> list_devices;  // empty in a build without llama.cpp
  EngineLoader load_llama;                            // empty in a build without llama.cpp
  Measurement measurement;
};

// Does what the command line says. Returns the exit status: 0 done, 1 cannot serve, 2 wrong command line.
int RunProgram(const WorkerProgram& program, int argc, char** argv);

}  // namespace meshnet

#endif  // MESHNET_PROCESS_WORKER_PROGRAM_H_
