// One lane of a connection between two workers: a Link call of gRPC. After their Hello messages, both ends behave
// alike.
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

// The header in which a peer that calls over a local socket claims its fingerprint, in hex; the claim proves nothing.
inline constexpr char kClaimedFingerprintHeader[] = "meshnet-claimed-fingerprint";

// The public methods may be called on any thread. The stream keeps itself alive until gRPC has finished the call.
class LinkStream {
 public:
  // A stream reports its messages and its end here. gRPC's threads call these methods, for one stream never two at
  // once.
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
  // Id of the connection of which the stream is a lane. It is set once: by the end that dials before the stream starts,
  // by the other end when it receives the Hello.
  const std::string& connection() const { return connection_; }
  void set_connection(std::string connection) { connection_ = std::move(connection); }

  void Enqueue(v1::LinkMessage&& message);
  void Flush();
  // Ends the stream. If this end accepted the call, the peer receives `code` and `why`. Idempotent.
  void Close(grpc::StatusCode code, const std::string& why);

 protected:
  LinkStream(Receiver* receiver, std::string fingerprint, bool is_dialled)
      : receiver_(receiver), fingerprint_(std::move(fingerprint)), is_dialled_(is_dialled) {}

  virtual void WriteNext(v1::LinkMessage* message) = 0;
  virtual void ReadNext(v1::LinkMessage* message) = 0;
  virtual void Interrupt() = 0;                            // makes a pending read end soon
  virtual void FinishNow(const grpc::Status& status) = 0;  // called once; no read or write is started later

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

// The end of a lane that accepted the call.
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

// The end of a lane that made the call.
class DialledLinkStream : public LinkStream, public grpc::ClientBidiReactor<v1::LinkMessage, v1::LinkMessage> {
 public:
  DialledLinkStream(Receiver* receiver, std::shared_ptr<grpc::Channel> channel, std::string fingerprint);
  // Makes the call and holds `self` until it ends. `claimed_fingerprint`: this worker's, in hex, for a call over a
  // local socket; otherwise empty, since a certificate proves the fingerprint.
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
