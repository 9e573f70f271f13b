// meshnet-worker-measure: the worker with captures and profiles, for benchmarks and the comparisons of `make parity`.
// Any process that can reach its socket can read the sessions' results, so it is not shipped.
#include "measure/measure_service.h"
#include "process/worker_program.h"
#if MESHNET_WITH_LLAMA
#include "engine/llama_devices.h"
#include "engine/llama_engine.h"
#include "measure/llama_profile.h"
#endif

int main(int argc, char** argv) {
  meshnet::MeasureService measure;
  meshnet::WorkerProgram program;
  program.measurement.make_observer = [&measure] { return measure.MakeCaptures(); };
  program.measurement.service = &measure;
#if MESHNET_WITH_LLAMA
  program.list_devices = meshnet::ListLlamaDevices;
  program.load_llama = [](const meshnet::LoadPlan& plan, const meshnet::LoadObserver& observer) {
    return meshnet::LoadLlamaEngine(plan, observer, std::make_unique<meshnet::LlamaProfile>());
  };
#endif
  return meshnet::RunProgram(program, argc, argv);
}
