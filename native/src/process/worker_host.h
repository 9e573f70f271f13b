// The whole worker: the loaded shard, the agent's bridge and the links to peers, between which it passes messages.
// Thread-safe: every method may be called from any thread.
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

// Loads an engine of one kind. The main functions (main.cpp, measure/measure_main.cpp) give the loaders of their build.
using EngineLoader =
    std::function<Result<std::unique_ptr<ShardEngine>>(const LoadPlan& plan, const LoadObserver& observer)>;

class WorkerHost : public MessageSink, public BridgeStream::Receiver, public PeerLinks::Host {
 public:
  // `make_observer` makes an observer for each shard that is loaded; if it is empty, steps are not observed.
  WorkerHost(LinkOptions link_options, PeerIdentity identity, StepObserverFactory make_observer = {});
  ~WorkerHost() override;

  // Begins to listen for peers as the LinkOptions say.
  Status Start() { return links_.Listen(); }

  // Loads a shard and blocks until it is loaded. kNotReady if a shard is loaded or being loaded. If `turn_path` is not
  // empty, the shard's steps take the compute turn of that path; kInvalidArgument if MachineTurn refuses it.
  Status Load(const EngineLoader& loader, const LoadPlan& plan, const std::string& turn_path,
              const LoadObserver& observer);
  // Ends all sessions and frees the engine; idempotent. Waits for the running step. If an RPC still uses the shard, all
  // this happens at the end of that RPC, and Unload does not wait.
  void Unload();
  // The loaded shard; null if none is loaded. The pointer keeps it alive.
  std::shared_ptr<StageWorker> stage() const;

  // Admits a session on the loaded shard and connects its direct edges to peers. kNotReady if no shard is loaded.
  Status OpenSession(const v1::SessionSpec& spec);

  // Makes the stream of a new Bridge call and closes the stream of an older one.
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
  std::shared_ptr<StageWorker> stage_;    // guarded by mutex_, like the next two members
  std::shared_ptr<BridgeStream> bridge_;  // of the newest Bridge call
  bool is_loading_ = false;
  PeerLinks links_;
};

}  // namespace meshnet

#endif  // MESHNET_PROCESS_WORKER_HOST_H_
