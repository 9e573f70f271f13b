#include "process/worker_host.h"

#include <iostream>

#include "session/machine_turn.h"

namespace meshnet {
namespace {

// Opens the compute turn of a path. A lack of semaphores costs speed, not service, so the worker logs it and computes
// without a turn. A wrong path is the caller's mistake: kInvalidArgument.
Result<std::unique_ptr<ComputeTurn>> OpenTurn(const std::string& turn_path) {
  if (turn_path.empty()) return std::unique_ptr<ComputeTurn>(std::make_unique<NoTurn>());
  Result<std::unique_ptr<MachineTurn>> turn = MachineTurn::Open(turn_path);
  if (turn.ok()) return std::unique_ptr<ComputeTurn>(std::move(turn.value()));
  if (turn.status().code() == Code::kInvalidArgument) return turn.status();
  std::cerr << "meshnet-worker: " << turn.status().message() << "; workers of this machine may slow each other down"
            << std::endl;
  return std::unique_ptr<ComputeTurn>(std::make_unique<NoTurn>());
}

}  // namespace

WorkerHost::WorkerHost(LinkOptions link_options, PeerIdentity identity, StepObserverFactory make_observer)
    : make_observer_(std::move(make_observer)), links_(std::move(link_options), std::move(identity), this) {}

WorkerHost::~WorkerHost() { Unload(); }

Status WorkerHost::Load(const EngineLoader& loader, const LoadPlan& plan, const std::string& turn_path,
                        const LoadObserver& observer) {
  Result<std::unique_ptr<ComputeTurn>> turn = OpenTurn(turn_path);
  if (!turn.ok()) return turn.status();
  {
    const std::lock_guard lock(mutex_);
    if (is_loading_ || stage_ != nullptr) return {Code::kNotReady, "a shard is loaded or loading; unload it first"};
    is_loading_ = true;
  }
  Result<std::unique_ptr<ShardEngine>> engine = loader(plan, observer);
  std::shared_ptr<StageWorker> stage;
  if (engine.ok()) {
    stage = std::make_shared<StageWorker>(std::move(engine.value()), std::move(turn.value()), this,
                                          make_observer_ ? make_observer_() : nullptr);
  }
  const std::lock_guard lock(mutex_);
  is_loading_ = false;
  stage_ = std::move(stage);
  return engine.status();
}

void WorkerHost::Unload() {
  std::shared_ptr<StageWorker> stage;
  {
    const std::lock_guard lock(mutex_);
    stage = std::exchange(stage_, nullptr);
  }
  // The last holder ends the threads: this function, or an RPC that still uses the worker.
}

std::shared_ptr<StageWorker> WorkerHost::stage() const {
  const std::lock_guard lock(mutex_);
  return stage_;
}

std::shared_ptr<BridgeStream> WorkerHost::bridge() const {
  const std::lock_guard lock(mutex_);
  return bridge_;
}

Status WorkerHost::OpenSession(const v1::SessionSpec& spec) {
  const std::shared_ptr<StageWorker> stage = this->stage();
  if (stage == nullptr) return {Code::kNotReady, "no shard is loaded"};
  const Result<SessionTerms> terms = stage->Open(spec);
  if (!terms.ok()) return terms.status();
  for (const EdgeTerms& edge : terms.value().edges) {
    if (edge.carrier == Carrier::kPeer) links_.Want(edge);
  }
  return Status::Ok();
}

std::shared_ptr<BridgeStream> WorkerHost::AttachBridge() {
  auto stream = std::make_shared<BridgeStream>(this);
  std::shared_ptr<BridgeStream> older;
  {
    const std::lock_guard lock(mutex_);
    older = std::exchange(bridge_, stream);
  }
  if (older != nullptr) older->Close();
  stream->Start(stream);
  if (const std::shared_ptr<StageWorker> stage = this->stage()) stage->AttachBridge();
  return stream;
}

void WorkerHost::BridgeEnded(const BridgeStream* stream) {
  std::shared_ptr<BridgeStream> ended;
  const std::lock_guard lock(mutex_);
  if (bridge_.get() == stream) ended = std::exchange(bridge_, nullptr);
}

void WorkerHost::Enqueue(Outgoing&& outgoing) {
  if (outgoing.destination.carrier == Carrier::kPeer) {
    links_.Enqueue(outgoing.destination.fingerprint, std::move(outgoing.message));
  } else if (const std::shared_ptr<BridgeStream> stream = bridge()) {
    stream->Enqueue(std::move(outgoing.message));
  }
  // If no bridge is attached, the messages are dropped; sessions keep their token events and send them again.
}

void WorkerHost::Flush() {
  links_.Flush();
  if (const std::shared_ptr<BridgeStream> stream = bridge()) stream->Flush();
}

void WorkerHost::ReceiveFromBridge(std::vector<Message>&& messages) {
  const std::shared_ptr<StageWorker> stage = this->stage();
  if (stage == nullptr) return;
  // A message that belongs to no session is counted and dropped, since the connection is the agent's own.
  const Status status = stage->Receive({}, std::move(messages));
  (void)status;
}

bool WorkerHost::KnowsPeer(const std::string& fingerprint) {
  const std::shared_ptr<StageWorker> stage = this->stage();
  return stage != nullptr && stage->Knows(fingerprint);
}

Status WorkerHost::ReceiveFromPeer(const std::string& fingerprint, std::vector<Message>&& messages) {
  const std::shared_ptr<StageWorker> stage = this->stage();
  if (stage == nullptr) return Status::Ok();
  return stage->Receive({Carrier::kPeer, fingerprint}, std::move(messages));
}

void WorkerHost::PeerLost(const std::string& fingerprint, const std::string& why) {
  if (const std::shared_ptr<StageWorker> stage = this->stage()) stage->LosePeer(fingerprint, why);
}

}  // namespace meshnet
