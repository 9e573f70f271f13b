#include "link/link_stream.h"

#include "wire/protocol_limits.h"

namespace meshnet {
namespace {

// Messages that queue up during a write, for example the frames of all sessions in a step, go out together in the next
// write, up to this many bytes. A larger message, such as a prompt chunk, travels alone.
constexpr std::size_t kBatchBytes = 64 * 1024;

void MoveBody(v1::LinkMessage* from, v1::LinkItem* to) {
  if (from->has_frame()) {
    *to->mutable_frame() = std::move(*from->mutable_frame());
  } else {
    *to->mutable_edge() = std::move(*from->mutable_edge());
  }
}

// Appends the message in `from`, a LinkMessage or a LinkItem. Returns false if there is none.
template <typename Body>
bool Take(Body* from, std::vector<Message>* messages) {
  if (from->has_frame()) messages->emplace_back(std::move(*from->mutable_frame()));
  if (from->has_edge()) messages->emplace_back(std::move(*from->mutable_edge()));
  return from->has_frame() || from->has_edge();
}

void Pack(std::deque<v1::LinkMessage>* items, v1::LinkMessage* message) {
  *message = std::move(items->front());
  items->pop_front();
  std::size_t bytes = message->ByteSizeLong();
  while (!message->has_hello() && !items->empty() && message->more_size() < kMaxLinkItems) {
    v1::LinkMessage& next = items->front();
    bytes += next.ByteSizeLong();
    if (next.has_hello() || bytes > kBatchBytes) return;
    MoveBody(&next, message->add_more());
    items->pop_front();
  }
}

}  // namespace

void LinkStream::Enqueue(v1::LinkMessage&& message) {
  if (!outbox_.Add(std::move(message))) Close(grpc::StatusCode::RESOURCE_EXHAUSTED, "the peer does not read");
}

void LinkStream::Flush() {
  if (v1::LinkMessage* message = outbox_.BeginWrite(Pack)) WriteNext(message);
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
    // gRPC reports the end of the stream and bytes that are not a message in the same way.
    Close(grpc::StatusCode::INVALID_ARGUMENT, "the stream ended, or the bytes were no message");
    return;
  }
  outbox_.Hold();
  v1::LinkMessage message = std::move(incoming_);
  incoming_.Clear();
  if (message.has_hello() != !has_hello_) {
    Close(grpc::StatusCode::INVALID_ARGUMENT, "Hello comes first, and once");
  } else if (message.more_size() > (has_hello_ ? kMaxLinkItems : 0)) {
    Close(grpc::StatusCode::INVALID_ARGUMENT, "a message holds too many items");
  } else if (message.has_hello()) {
    has_hello_ = true;
    receiver_->HelloReceived(self, message.hello());
  } else {
    std::vector<Message> messages;
    bool is_whole = Take(&message, &messages);
    for (v1::LinkItem& item : *message.mutable_more()) is_whole = Take(&item, &messages) && is_whole;
    if (is_whole) {
      receiver_->MessagesReceived(self, std::move(messages));
    } else {
      Close(grpc::StatusCode::INVALID_ARGUMENT, "a message without a body");
    }
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
  // Other threads than gRPC's start writes, so the call must not end by itself: FinishNow removes this hold.
  AddHold();
  StartRead(&incoming_);
  StartCall();
}

}  // namespace meshnet
