// An engine whose model has no weights: it computes rows of the right shapes by integer arithmetic, so that all code
// around an engine can be tested without a model. Values are integers below 65521 held in f32. They are exact, and they
// are the same however the layers are divided into shards. Source: docs/wire.md, FakeEngine.
#ifndef MESHNET_ENGINE_FAKE_ENGINE_H_
#define MESHNET_ENGINE_FAKE_ENGINE_H_

#include <chrono>
#include <memory>
#include <vector>

#include "engine/shard_engine.h"

namespace meshnet {

class FakeEngine : public ShardEngine {
 public:
  // Makes the engine at once and calls the observer with 0, then with 1. Fails with kLayersOutOfRange, with
  // kInvalidArgument if a size or a limit is out of range, and with kCancelled if the observer returns false.
  static Result<std::unique_ptr<ShardEngine>> Load(const LoadPlan& plan, const LoadObserver& observer);

  const ShardFacts& facts() const override { return facts_; }
  Status Open(SequenceId sequence) override;
  Status Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) override;
  Status Rewind(SequenceId sequence, std::uint64_t length) override;
  Result<SequenceState> Save(SequenceId sequence, StateScope scope) override;
  Status Restore(SequenceId sequence, const SequenceState& state) override;
  void Close(SequenceId sequence) override;
  std::uint64_t Length(SequenceId sequence) const override;
  bool IsUsable(SequenceId sequence) const override;

 private:
  // The stand-in for the KV cache of one sequence: `states` is [length, layers of the shard, width].
  struct Sequence {
    bool is_open = false;
    std::uint64_t length = 0;
    std::vector<std::uint32_t> states;
  };

  FakeEngine(const LoadPlan& plan, ShardFacts facts);

  bool IsOpen(SequenceId sequence) const;
  std::size_t RowStates() const { return std::size_t{layers_.layer_end - layers_.layer_begin} * width_; }
  void RunRow(Sequence* sequence, std::vector<std::uint64_t>* row);
  void RunSlice(const StepSlice& slice);
  void AppendLogits(const std::vector<std::uint64_t>& row);

  const ShardFacts facts_;
  const LayerSpan layers_;
  const std::uint32_t width_;
  const std::chrono::microseconds row_time_;   // time of one row through all layers of the shard
  const std::chrono::microseconds step_time_;  // time that a step takes in addition to that of its rows
  std::vector<Sequence> sequences_;
  std::vector<float> hidden_;  // hidden rows that the last step gave, all slices in order
  std::vector<float> logits_;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_FAKE_ENGINE_H_
