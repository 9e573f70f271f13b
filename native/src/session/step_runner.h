// Runs one step: builds a batch from rows that were taken from the queue, runs the engine, then packs hidden rows or
// samples tokens. Compute thread only, without StageWorker's lock. So from a session it reads only the terms and the
// sequence id, which never change, and uses the sampler.
#ifndef MESHNET_SESSION_STEP_RUNNER_H_
#define MESHNET_SESSION_STEP_RUNNER_H_

#include <memory>
#include <optional>
#include <vector>

#include "engine/shard_engine.h"
#include "session/session.h"

namespace meshnet {

class StepObserver;

// A call to the engine that opens or closes a sequence. Such calls run before the step, in the order in which they were
// given.
struct EngineOrder {
  enum class Kind { kOpen, kClose };
  Kind kind = Kind::kOpen;
  SequenceId sequence = 0;
  std::uint64_t kv_cells = 0;  // kClose: the cells that it frees
};

// One session's rows in a step, with times and results.
struct StepItem {
  std::shared_ptr<Session> session;
  PendingRows rows;
  TimePoint awake_at;  // when the compute thread asked for the compute turn
  TimePoint taken_at;
  TimePoint begin_at;  // when the engine began this step; end_at: when it ended
  TimePoint end_at;
  TimePoint delivered_at;

  Status status;
  std::optional<v1::Tensor> hidden;   // packed output rows; not on the tail
  std::optional<SampledToken> token;  // only on the tail, for rows that cause a token
  std::uint32_t compute_us = 0;
  std::uint32_t codec_us = 0;
};

class StepRunner {
 public:
  // `observer`, which may be null, sees the logits from which tokens are sampled. Both pointers outlive the runner.
  explicit StepRunner(ShardEngine* engine, StepObserver* observer = nullptr) : engine_(engine), observer_(observer) {}

  // Runs all items as one step and fills in their times and results.
  void Run(std::vector<StepItem>* items);

 private:
  // Unpacks the rows of all items into `hidden_`, so that the engine gets aligned floats. If a frame asks for a rewind,
  // rewinds its sequence first.
  void Gather(std::vector<StepItem>* items);
  void Deliver(const StepResult& result, StepItem* item);

  ShardEngine* const engine_;
  StepObserver* const observer_;
  // Microseconds that the rewinds of this step took. They count as compute time, since an engine may recompute rows to
  // rewind.
  std::uint32_t rewind_us_ = 0;
  std::vector<float> hidden_;
  std::vector<StepSlice> slices_;
  std::vector<std::size_t> slice_items_;  // index of each slice's item
  std::vector<std::uint32_t> logits_rows_;
  std::vector<StepResult> results_;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_STEP_RUNNER_H_
