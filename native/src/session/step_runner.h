// One step, from taken rows to results: builds the batch, runs the engine, samples. Compute thread only. Of a session
// it uses only the constant terms and the sampler.
#ifndef MESHNET_SESSION_STEP_RUNNER_H_
#define MESHNET_SESSION_STEP_RUNNER_H_

#include <memory>
#include <optional>
#include <vector>

#include "engine/shard_engine.h"
#include "session/session.h"

namespace meshnet {

class StepObserver;

// An engine call that opens or closes a sequence; run in order, before the step.
struct EngineOrder {
  enum class Kind { kOpen, kClose };
  Kind kind = Kind::kOpen;
  SequenceId sequence = 0;
  std::uint64_t kv_cells = 0;  // kClose: to be freed
};

// One session's rows in a step, and their outcome.
struct StepItem {
  std::shared_ptr<Session> session;
  PendingRows rows;
  TimePoint awake_at;  // the compute thread asked for the turn
  TimePoint taken_at;
  TimePoint begin_at;  // of the engine's step, as end_at
  TimePoint end_at;
  TimePoint delivered_at;

  Status status;
  std::optional<v1::Tensor> hidden;   // not on the tail
  std::optional<SampledToken> token;  // tail only, if logits were wanted
  std::uint32_t compute_us = 0;
  std::uint32_t codec_us = 0;
};

class StepRunner {
 public:
  // `observer` sees the logits that tokens are drawn from; may be null. Both outlive the runner.
  explicit StepRunner(ShardEngine* engine, StepObserver* observer = nullptr) : engine_(engine), observer_(observer) {}

  // Runs all items as one step and fills in their outcomes.
  void Run(std::vector<StepItem>* items);

 private:
  // Unpacks rows into one buffer, so that engines get aligned floats; rewinds if a frame asks for it.
  void Gather(std::vector<StepItem>* items);
  void Deliver(const StepResult& result, StepItem* item);

  ShardEngine* const engine_;
  StepObserver* const observer_;
  // Time of the rewinds in this step. It counts as compute time, since an engine may recompute rows to rewind.
  std::uint32_t rewind_us_ = 0;
  std::vector<float> hidden_;
  std::vector<StepSlice> slices_;
  std::vector<std::size_t> slice_items_;  // item of each slice
  std::vector<std::uint32_t> logits_rows_;
  std::vector<StepResult> results_;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_STEP_RUNNER_H_
