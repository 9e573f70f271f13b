// The whole worker: the loaded shard, the agent's bridge, the links to peers, and the paths of messages between them.
// Thread-safe; any thread.
#ifndef MESHNET_PROCESS_WORKER_HOST_H_
#define MESHNET_PROCESS_WORKER_HOST_H_

#include <memory>
#include <mutex>
#include <string>

#include "link/bridge_stream.h"
#include "link/link.h"
#include "session/message_sink.h"
#include "session/stage_worker.h"

namespace meshnet {

// Loads an engine of one kind; main.cpp and measure/measure_main.cpp know the kinds of their build.
using EngineLoader =
    std::function<Result<std::unique_ptr<ShardEngine>>(const LoadPlan& plan, const LoadObserver& observer)>;

class WorkerHost : public MessageSink, public BridgeStream::Receiver, public PeerLinks::Host {
 public:
  // `make_observer` makes an observer for each shard that is loaded; if empty, steps are not observed.
  WorkerHost(LinkOptions link_options, PeerIdentity identity, StepObserverFactory make_observer = {});
  ~WorkerHost() override;

  // Begins to listen for peers at the addresses of the options.
  Status Start() { return links_.Listen(); }

  // Loads a shard; kNotReady if one is loaded or being loaded. Blocks during the load. Its steps take the turn of
  // `turn_path`, if not empty; kInvalidArgument if MachineTurn refuses the path.
  Status Load(const EngineLoader& loader, const LoadPlan& plan, const std::string& turn_path,
              const LoadObserver& observer);
  // Ends all sessions and frees the engine; idempotent. Waits for the running step.
  void Unload();
  // The loaded shard; null before Load. Holding it keeps it alive.
  std::shared_ptr<StageWorker> stage() const;

  // Admits a session on the loaded shard and connects its edges.
  Status OpenSession(const v1::SessionSpec& spec);

  // Attaches a Bridge call of the agent; a newer call replaces an older one.
  std::shared_ptr<BridgeStream> AttachBridge();

  const PeerLinks& links() const { return links_; }

  void Enqueue(Outgoing&& outgoing) override;
  void Flush() override;

 private:
  void ReceiveFromBridge(std::vector<Message>&& messages) override;
  void BridgeEnded(const BridgeStream* stream) override;
  bool KnowsPeer(const std::string& fingerprint) override;
  Status ReceiveFromPeer(const std::string& fingerprint, std::vector<Message>&& messages) override;
  void PeerLost(const std::string& fingerprint, const std::string& why) override;
  std::shared_ptr<BridgeStream> bridge() const;

  const StepObserverFactory make_observer_;
  mutable std::mutex mutex_;
  std::shared_ptr<StageWorker> stage_;    // guarded by mutex_, as the next two
  std::shared_ptr<BridgeStream> bridge_;  // the newest
  bool is_loading_ = false;
  PeerLinks links_;
};

}  // namespace meshnet

#endif  // MESHNET_PROCESS_WORKER_HOST_H_
