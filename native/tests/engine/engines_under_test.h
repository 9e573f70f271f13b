// The engines that the contract suite runs against.
#ifndef MESHNET_TESTS_ENGINE_ENGINES_UNDER_TEST_H_
#define MESHNET_TESTS_ENGINE_ENGINES_UNDER_TEST_H_

#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/fake_engine.h"
#include "engine/shard_engine.h"
#if MESHNET_WITH_LLAMA
#include "engine/llama_engine.h"
#endif

namespace meshnet {

// The real model: where the environment says, or where `make` puts it.
inline std::string TestModelPath() {
  const char* given = std::getenv("MESHNET_TEST_MODEL");
  if (given != nullptr) return given;
  return std::string(MESHNET_SOURCE_ROOT) + "/build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

struct EngineUnderTest {
  std::string name;
  Result<std::unique_ptr<ShardEngine>> (*load)(const LoadPlan& plan, const LoadObserver& observer);
  LoadPlan plan;  // a whole model
};

// Found by gtest, which would print the bytes otherwise.
inline void PrintTo(const EngineUnderTest& engine, std::ostream* stream) { *stream << engine.name; }

inline std::vector<EngineUnderTest> EnginesUnderTest() {
  LoadPlan plan;
  plan.context_length = 256;
  plan.max_sessions = 4;
  plan.threads = 1;  // on a busy machine threads wait for each other at every node of the graph
  plan.flash_attention = true;
  plan.artifact_digest = std::string(32, 'a');
  std::vector<EngineUnderTest> engines = {{"Fake", FakeEngine::Load, plan}};
#if MESHNET_WITH_LLAMA
  plan.gguf_path = TestModelPath();
  const auto load = [](const LoadPlan& asked, const LoadObserver& observer) {
    return LoadLlamaEngine(asked, observer);
  };
  engines.push_back({"Llama", load, plan});
#endif
  return engines;
}

inline bool GoOn(float /*fraction*/) { return true; }

}  // namespace meshnet

#endif  // MESHNET_TESTS_ENGINE_ENGINES_UNDER_TEST_H_
