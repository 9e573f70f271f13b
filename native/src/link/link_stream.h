// One lane of a connection between two workers: a Link call. After Hello both ends behave alike.
#ifndef MESHNET_LINK_LINK_STREAM_H_
#define MESHNET_LINK_LINK_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "link/stream_outbox.h"
#include "meshnet/v1/link.grpc.pb.h"
#include "session/stage_machine.h"

namespace meshnet {

// At a local socket a peer only claims its fingerprint (hex), in this header.
inline constexpr char kClaimedFingerprintHeader[] = "meshnet-claimed-fingerprint";

// Any thread. Keeps itself alive until gRPC has finished the call.
class LinkStream {
 public:
  // gRPC's threads call these, one of a stream at a time.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void HelloReceived(const std::shared_ptr<LinkStream>& stream, const v1::Hello& hello) = 0;
    virtual void MessagesReceived(const std::shared_ptr<LinkStream>& stream, std::vector<Message>&& messages) = 0;
    virtual void StreamEnded(const std::shared_ptr<LinkStream>& stream, const std::string& why) = 0;
  };

  virtual ~LinkStream() = default;
  LinkStream(const LinkStream&) = delete;
  LinkStream& operator=(const LinkStream&) = delete;

  const std::string& fingerprint() const { return fingerprint_; }
  bool is_dialled() const { return is_dialled_; }
  // Set once, before the stream is shared or by the receiver of its Hello.
  const std::string& connection() const { return connection_; }
  void set_connection(std::string connection) { connection_ = std::move(connection); }

  void Enqueue(v1::LinkMessage&& message);
  void Flush();
  // Ends the stream; if this end accepted it, the peer is told the status. Idempotent.
  void Close(grpc::StatusCode code, const std::string& why);

 protected:
  LinkStream(Receiver* receiver, std::string fingerprint, bool is_dialled)
      : receiver_(receiver), fingerprint_(std::move(fingerprint)), is_dialled_(is_dialled) {}

  virtual void WriteNext(v1::LinkMessage* message) = 0;
  virtual void ReadNext(v1::LinkMessage* message) = 0;
  virtual void Interrupt() = 0;                            // ends a pending read soon
  virtual void FinishNow(const grpc::Status& status) = 0;  // no operation starts after this

  void Read(bool ok);
  void Written(bool ok);
  void Ended(const std::string& why);

  std::shared_ptr<LinkStream> self_;
  v1::LinkMessage incoming_;

 private:
  grpc::Status FinalStatus();

  Receiver* const receiver_;
  const std::string fingerprint_;
  const bool is_dialled_;
  std::string connection_;
  bool has_hello_ = false;
  std::mutex status_mutex_;
  grpc::Status status_;  // guarded by status_mutex_
  StreamOutbox<v1::LinkMessage, v1::LinkMessage> outbox_;
};

// The accepting end of a lane.
class AcceptedLinkStream : public LinkStream, public grpc::ServerBidiReactor<v1::LinkMessage, v1::LinkMessage> {
 public:
  AcceptedLinkStream(Receiver* receiver, grpc::CallbackServerContext* context, std::string fingerprint);
  void Start(std::shared_ptr<LinkStream> self);

  void OnReadDone(bool ok) override { Read(ok); }
  void OnWriteDone(bool ok) override { Written(ok); }
  void OnCancel() override { Close(grpc::StatusCode::CANCELLED, "the peer went away"); }
  void OnDone() override { Ended("the peer went away"); }

 private:
  void WriteNext(v1::LinkMessage* message) override { StartWrite(message); }
  void ReadNext(v1::LinkMessage* message) override { StartRead(message); }
  void Interrupt() override {}
  void FinishNow(const grpc::Status& status) override { Finish(status); }
};

// The dialling end of a lane.
class DialledLinkStream : public LinkStream, public grpc::ClientBidiReactor<v1::LinkMessage, v1::LinkMessage> {
 public:
  DialledLinkStream(Receiver* receiver, std::shared_ptr<grpc::Channel> channel, std::string fingerprint);
  // claimed_fingerprint: hex; empty if a certificate proves the fingerprint.
  void Start(std::shared_ptr<LinkStream> self, const std::string& claimed_fingerprint);

  void OnReadDone(bool ok) override { Read(ok); }
  void OnWriteDone(bool ok) override { Written(ok); }
  void OnDone(const grpc::Status& status) override { Ended(status.error_message()); }

 private:
  void WriteNext(v1::LinkMessage* message) override { StartWrite(message); }
  void ReadNext(v1::LinkMessage* message) override { StartRead(message); }
  void Interrupt() override { context_.TryCancel(); }
  void FinishNow(const grpc::Status& /*status*/) override { RemoveHold(); }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::PeerLink::Stub> stub_;
  grpc::ClientContext context_;
};

}  // namespace meshnet

#endif  // MESHNET_LINK_LINK_STREAM_H_
