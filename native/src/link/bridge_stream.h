// The worker's end of the bridge: one Bridge call of gRPC that the agent made. No method waits for a read or a write.
#ifndef MESHNET_LINK_BRIDGE_STREAM_H_
#define MESHNET_LINK_BRIDGE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

#include "link/stream_outbox.h"
#include "meshnet/v1/worker.grpc.pb.h"
#include "session/stage_machine.h"

namespace meshnet {

// gRPC's threads call the methods whose names begin with On; any thread may call Enqueue, Flush and Close. The stream
// keeps itself alive until gRPC has finished the call.
class BridgeStream : public grpc::ServerBidiReactor<v1::BridgeBatch, v1::BridgeBatch> {
 public:
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // Takes messages that arrived together. Called on gRPC's threads, for one stream never twice at once.
    virtual void ReceiveFromBridge(std::vector<Message>&& messages) = 0;
    virtual void BridgeEnded(const BridgeStream* stream) = 0;
  };

  // `receiver` must outlive the stream.
  explicit BridgeStream(Receiver* receiver) : receiver_(receiver) {}

  // Begins to read. The stream holds `self` until the call ends.
  void Start(std::shared_ptr<BridgeStream> self);

  void Enqueue(Message&& message);
  void Flush();
  void Close();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  Receiver* const receiver_;
  std::shared_ptr<BridgeStream> self_;
  v1::BridgeBatch incoming_;
  grpc::Status status_;  // set by the read that fails when the stream ends
  StreamOutbox<Message, v1::BridgeBatch> outbox_;
};

}  // namespace meshnet

#endif  // MESHNET_LINK_BRIDGE_STREAM_H_
