// Shards, specs and frames for the tests of the machines around an engine. Time is whatever a test says it is.
#ifndef MESHNET_TESTS_SESSION_MACHINE_FIXTURE_H_
#define MESHNET_TESTS_SESSION_MACHINE_FIXTURE_H_

#include <memory>
#include <string>

#include "engine/fake_engine.h"
#include "session/session_terms.h"
#include "session/stage_machine.h"

namespace meshnet {

constexpr std::uint32_t kTestWidth = 16;

inline TimePoint At(int milliseconds) {
  return TimePoint(std::chrono::hours(1) + std::chrono::milliseconds(milliseconds));
}

inline std::string SessionBytes(char name) { return std::string(kSessionIdBytes, name); }

inline std::unique_ptr<ShardEngine> LoadFake(LayerSpan layers, std::uint32_t max_sessions = 4,
                                             std::uint32_t kv_cells = 0) {
  LoadPlan plan;
  plan.fake_layers = 8;
  plan.fake_width = kTestWidth;
  plan.layers = layers;
  plan.context_length = 256;
  plan.max_sessions = max_sessions;
  plan.kv_cells = kv_cells;
  return std::move(FakeEngine::Load(plan, [](float) { return true; }).value());
}

inline void AddEdge(std::uint32_t from, std::uint32_t to, std::uint32_t window_frames, v1::SessionSpec* spec) {
  v1::EdgeSpec* edge = spec->add_edges();
  edge->set_from_stage(from);
  edge->set_to_stage(to);
  edge->set_carrier(v1::EdgeSpec::CARRIER_RELAY);
  edge->set_window_frames(window_frames);
  edge->set_window_bytes(1 << 20);
}

// The terms of a prompt of 8 and up to 20 tokens on one stage of `n_stages`.
inline v1::SessionSpec SpecFor(const ShardFacts& facts, std::uint32_t stage, std::uint32_t n_stages, char name = 's',
                               std::uint32_t epoch = 1) {
  v1::SessionSpec spec;
  spec.set_session(SessionBytes(name));
  spec.set_epoch(epoch);
  spec.set_stage(stage);
  spec.set_n_stages(n_stages);
  *spec.mutable_layers() = facts.contract.layers();
  spec.set_contract_digest(facts.contract.contract_digest());
  spec.set_recipe(facts.contract.recipe());
  spec.set_prompt_tokens(8);
  spec.set_max_tokens(20);
  spec.set_step_deadline_ms(1000);
  spec.set_idle_ms(5000);
  spec.set_gateway_grace_ms(500);
  spec.set_token_window(4);
  if (stage == 0) AddEdge(kGatewayStage, 0, 2, &spec);
  if (stage > 0) AddEdge(stage - 1, stage, 2, &spec);
  if (stage + 1 < n_stages) AddEdge(stage, stage + 1, 2, &spec);
  if (stage + 1 == n_stages) AddEdge(stage, kGatewayStage, 1, &spec);
  if (n_stages > 1 && (stage == 0 || stage + 1 == n_stages)) AddEdge(n_stages - 1, 0, 1, &spec);
  return spec;
}

// A prompt chunk from the Gateway.
inline v1::Frame Chunk(std::uint64_t seq, std::uint64_t position, std::uint32_t rows, bool end, char name = 's') {
  v1::Frame frame;
  frame.set_session(SessionBytes(name));
  frame.set_epoch(1);
  frame.set_from_stage(kGatewayStage);
  frame.set_to_stage(0);
  frame.set_seq(seq);
  frame.set_phase(v1::PHASE_PREFILL);
  frame.set_position(position);
  frame.set_rows(rows);
  frame.set_prompt_end(end);
  for (std::uint32_t row = 0; row < rows; ++row) frame.add_token_ids(65 + row);
  return frame;
}

// A token that comes back to the head of a route of `n_stages`.
inline v1::Frame RingToken(std::uint64_t seq, std::uint64_t position, std::uint32_t n_stages, char name = 's') {
  v1::Frame frame = Chunk(seq, position, 1, false, name);
  frame.set_from_stage(n_stages - 1);
  frame.set_phase(v1::PHASE_DECODE);
  return frame;
}

inline v1::EdgeMessage AckOn(Edge edge, std::uint64_t seq, char name = 's') {
  v1::EdgeMessage message;
  message.set_session(SessionBytes(name));
  message.set_epoch(1);
  message.set_from_stage(edge.from_stage);
  message.set_to_stage(edge.to_stage);
  message.mutable_ack()->set_seq(seq);
  return message;
}

// A machine with its engine: what StageWorker does, in one thread.
class TestStage {
 public:
  explicit TestStage(LayerSpan layers, std::uint32_t max_sessions = 4, std::uint32_t kv_cells = 0)
      : TestStage(LoadFake(layers, max_sessions, kv_cells)) {}

  explicit TestStage(std::unique_ptr<ShardEngine> loaded)
      : engine(std::move(loaded)), machine(engine->facts()), runner_(engine.get()) {}

  // Runs orders and steps until nothing is left to do.
  void Run(TimePoint now) {
    while (machine.HasWork()) {
      RunOrders();
      std::vector<StepItem> items = machine.TakeStep(now);
      Compute(&items);
      machine.CommitStep(std::move(items), now);
    }
  }

  void Compute(std::vector<StepItem>* items) {
    if (!items->empty()) runner_.Run(items);
  }

  void RunOrders() {
    for (const EngineOrder& order : machine.TakeOrders()) {
      if (order.kind == EngineOrder::Kind::kOpen) {
        const Status status = engine->Open(order.sequence);
        opened += status.ok() ? 1 : 0;
      } else {
        engine->Close(order.sequence);
        ++closed;
        machine.Released(order, engine->IsUsable(order.sequence));
      }
    }
  }

  // What was sent of one kind since the last call.
  std::vector<v1::EdgeMessage> TakeEdgeMessages(v1::EdgeMessage::BodyCase kind) {
    Collect();
    std::vector<v1::EdgeMessage> found;
    std::erase_if(edges_, [&](const v1::EdgeMessage& message) {
      if (message.body_case() != kind) return false;
      found.push_back(message);
      return true;
    });
    return found;
  }

  std::vector<v1::Frame> TakeFrames() {
    Collect();
    return std::exchange(frames_, {});
  }

  // The one failure since the last call; empty where there was none or more.
  std::string TakeFailure() {
    const std::vector<v1::EdgeMessage> failures = TakeEdgeMessages(v1::EdgeMessage::kFailure);
    return failures.size() == 1 ? failures[0].failure().code() : std::string();
  }

  const std::unique_ptr<ShardEngine> engine;
  StageMachine machine;
  int opened = 0;
  int closed = 0;

 private:
  void Collect() {
    for (Outgoing& outgoing : machine.TakeOutgoing()) {
      if (v1::Frame* frame = std::get_if<v1::Frame>(&outgoing.message)) {
        frames_.push_back(std::move(*frame));
      } else {
        edges_.push_back(std::move(std::get<v1::EdgeMessage>(outgoing.message)));
      }
    }
  }

  StepRunner runner_;
  std::vector<v1::Frame> frames_;
  std::vector<v1::EdgeMessage> edges_;
};

}  // namespace meshnet

#endif  // MESHNET_TESTS_SESSION_MACHINE_FIXTURE_H_
