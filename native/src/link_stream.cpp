#include "link_stream.h"

namespace meshnet {

void LinkStream::Enqueue(v1::LinkMessage&& message) {
  if (!outbox_.Add(std::move(message))) Close(grpc::StatusCode::RESOURCE_EXHAUSTED, "the peer does not read");
}

void LinkStream::Flush() {
  const auto pack = [](std::deque<v1::LinkMessage>* items, v1::LinkMessage* message) {
    *message = std::move(items->front());
    items->pop_front();
  };
  if (v1::LinkMessage* message = outbox_.BeginWrite(pack)) WriteNext(message);
}

void LinkStream::Close(grpc::StatusCode code, const std::string& why) {
  {
    const std::lock_guard lock(status_mutex_);
    if (status_.ok()) status_ = grpc::Status(code, why);
  }
  if (outbox_.Close()) FinishNow(FinalStatus());
  Interrupt();
}

void LinkStream::Read(bool ok) {
  const std::shared_ptr<LinkStream> self = self_;  // Close may let OnDone run at once, on another thread
  if (!ok) {
    // gRPC does not tell an end from bytes that are no message.
    Close(grpc::StatusCode::INVALID_ARGUMENT, "the stream ended, or what came was no message");
    return;
  }
  outbox_.Hold();
  v1::LinkMessage message = std::move(incoming_);
  incoming_.Clear();
  if (message.has_hello() != !has_hello_) {
    Close(grpc::StatusCode::INVALID_ARGUMENT, "Hello comes first, and once");
  } else if (message.has_hello()) {
    has_hello_ = true;
    receiver_->HelloReceived(self, message.hello());
  } else if (message.has_frame()) {
    receiver_->MessageReceived(self, std::move(*message.mutable_frame()));
  } else if (message.has_edge()) {
    receiver_->MessageReceived(self, std::move(*message.mutable_edge()));
  } else {
    Close(grpc::StatusCode::INVALID_ARGUMENT, "a message without a body");
  }
  if (!outbox_.is_closed()) ReadNext(&incoming_);
  if (outbox_.Release()) FinishNow(FinalStatus());
}

void LinkStream::Written(bool ok) {
  const std::shared_ptr<LinkStream> self = self_;
  if (outbox_.EndWrite()) {
    FinishNow(FinalStatus());
  } else if (ok) {
    Flush();
  }
}

grpc::Status LinkStream::FinalStatus() {
  const std::lock_guard lock(status_mutex_);
  return status_;
}

void LinkStream::Ended(const std::string& why) {
  receiver_->StreamEnded(self_, why.empty() ? FinalStatus().error_message() : why);
  const std::shared_ptr<LinkStream> self = std::exchange(self_, nullptr);
}

AcceptedLinkStream::AcceptedLinkStream(Receiver* receiver, grpc::CallbackServerContext* /*context*/,
                                       std::string fingerprint)
    : LinkStream(receiver, std::move(fingerprint), false) {}

void AcceptedLinkStream::Start(std::shared_ptr<LinkStream> self) {
  self_ = std::move(self);
  StartRead(&incoming_);
}

DialledLinkStream::DialledLinkStream(Receiver* receiver, std::shared_ptr<grpc::Channel> channel,
                                     std::string fingerprint)
    : LinkStream(receiver, std::move(fingerprint), true),
      channel_(std::move(channel)),
      stub_(v1::PeerLink::NewStub(channel_)) {}

void DialledLinkStream::Start(std::shared_ptr<LinkStream> self, const std::string& claimed_fingerprint) {
  self_ = std::move(self);
  if (!claimed_fingerprint.empty()) context_.AddMetadata(kClaimedFingerprintHeader, claimed_fingerprint);
  stub_->async()->Link(&context_, this);
  // Writes come from other threads than gRPC's: the call stays until FinishNow lets go.
  AddHold();
  StartRead(&incoming_);
  StartCall();
}

}  // namespace meshnet
