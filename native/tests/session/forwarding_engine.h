// An engine for tests that differs from FakeEngine in what its subclasses say.
#ifndef MESHNET_TESTS_SESSION_FORWARDING_ENGINE_H_
#define MESHNET_TESTS_SESSION_FORWARDING_ENGINE_H_

#include <memory>
#include <vector>

#include "session/machine_fixture.h"

namespace meshnet {

class ForwardingEngine : public ShardEngine {
 public:
  explicit ForwardingEngine(LayerSpan layers) : engine_(LoadFake(layers)), facts_(engine_->facts()) {}

  const ShardFacts& facts() const override { return facts_; }
  Status Open(SequenceId sequence) override { return engine_->Open(sequence); }
  Status Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) override {
    return engine_->Step(slices, results);
  }
  Status Rewind(SequenceId sequence, std::uint64_t length) override { return engine_->Rewind(sequence, length); }
  Result<SequenceState> Save(SequenceId sequence, StateScope scope) override { return engine_->Save(sequence, scope); }
  Status Restore(SequenceId sequence, const SequenceState& state) override { return engine_->Restore(sequence, state); }
  void Close(SequenceId sequence) override { engine_->Close(sequence); }
  std::uint64_t Length(SequenceId sequence) const override { return engine_->Length(sequence); }
  bool IsUsable(SequenceId sequence) const override { return engine_->IsUsable(sequence); }

 protected:
  const std::unique_ptr<ShardEngine> engine_;
  ShardFacts facts_;
};

}  // namespace meshnet

#endif  // MESHNET_TESTS_SESSION_FORWARDING_ENGINE_H_
