// Threads of a graph that wait for one which is not scheduled give their core away (patch 0008).
#include <gtest/gtest.h>

#ifdef __linux__
#include <sys/resource.h>

#include <memory>
#include <vector>

#include "engine/core_placement.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace meshnet {
namespace {

constexpr int kNodes = 400;
constexpr int kRows = 32;

template <typename T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* object) const { Free(object); }
};
using Context = std::unique_ptr<ggml_context, Deleter<ggml_context, ggml_free>>;
using Pool = std::unique_ptr<ggml_threadpool, Deleter<ggml_threadpool, ggml_threadpool_free>>;

long VoluntarySwitches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

// A chain of nodes with a barrier after each, by so many threads that are all bound to one core.
struct Computed {
  long switches = 0;
  std::vector<float> values;
};

Computed ComputeOnOneCore(int threads) {
  const KeepsCores keeps;
  const int core = AllowedCores().front();
  const Context context(ggml_init({16 * 1024 * 1024, nullptr, false}));
  ggml_tensor* input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kRows, kRows);
  for (int i = 0; i < kRows * kRows; ++i) ggml_set_f32_1d(input, i, 0.01F * static_cast<float>(i % 7));
  ggml_tensor* last = input;
  for (int node = 0; node < kNodes; ++node) last = ggml_add(context.get(), last, input);
  ggml_cgraph* graph = ggml_new_graph_custom(context.get(), kNodes, false);
  ggml_build_forward_expand(graph, last);

  ggml_threadpool_params params = ggml_threadpool_params_default(threads);
  params.poll = 0;
  params.cpumask[core] = true;
  const Pool pool(ggml_threadpool_new(&params));
  EXPECT_TRUE(BindThisThread({core}));
  ggml_cplan plan = ggml_graph_plan(graph, threads, pool.get());
  std::vector<std::uint8_t> work(plan.work_size);
  plan.work_data = work.data();
  Computed computed;
  const long before = VoluntarySwitches();
  EXPECT_EQ(ggml_graph_compute(graph, &plan), GGML_STATUS_SUCCESS);
  computed.switches = VoluntarySwitches() - before;
  const float* values = ggml_get_data_f32(last);
  computed.values.assign(values, values + kRows * kRows);
  return computed;
}

TEST(LlamaBarrier, ThreadsOnOneCoreHandItToEachOtherAtEveryNode) {
  const Computed alone = ComputeOnOneCore(1);  // control: nobody to wait for
  const Computed shared = ComputeOnOneCore(2);
  std::printf("%d nodes: one thread gave its core away %ld times, two threads %ld times\n", kNodes, alone.switches,
              shared.switches);
  EXPECT_LT(alone.switches, kNodes / 8);
  EXPECT_GT(shared.switches, kNodes / 2);  // where a barrier only spins, this takes a scheduler's slice a node instead
  ASSERT_FALSE(alone.values.empty());
  EXPECT_EQ(alone.values, shared.values);
}

}  // namespace
}  // namespace meshnet
#endif
