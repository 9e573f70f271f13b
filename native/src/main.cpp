// The main function of meshnet-worker, the shipped worker: gives RunProgram the engines of this build. The exit
// statuses are in process/worker_program.h.
#include "process/worker_program.h"
#if MESHNET_WITH_LLAMA
#include "engine/llama_devices.h"
#include "engine/llama_engine.h"
#endif

int main(int argc, char** argv) {
  meshnet::WorkerProgram program;
#if MESHNET_WITH_LLAMA
  program.list_devices = meshnet::ListLlamaDevices;
  program.load_llama = [](const meshnet::LoadPlan& plan, const meshnet::LoadObserver& observer) {
    return meshnet::LoadLlamaEngine(plan, observer);
  };
#endif
  return meshnet::RunProgram(program, argc, argv);
}
