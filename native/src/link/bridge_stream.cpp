#include "link/bridge_stream.h"

namespace meshnet {
namespace {

// A batch stays well below gRPC's default limit of 4 MiB, which the agent keeps.
constexpr std::size_t kBatchBytes = 1024 * 1024;

void Pack(std::deque<Message>* items, v1::BridgeBatch* batch) {
  std::size_t bytes = 0;
  while (!items->empty() && bytes < kBatchBytes) {
    v1::BridgeMessage* message = batch->add_messages();
    if (v1::Frame* frame = std::get_if<v1::Frame>(&items->front())) {
      *message->mutable_frame() = std::move(*frame);
    } else {
      *message->mutable_edge() = std::move(std::get<v1::EdgeMessage>(items->front()));
    }
    bytes += message->ByteSizeLong();
    items->pop_front();
  }
}

}  // namespace

void BridgeStream::Start(std::shared_ptr<BridgeStream> self) {
  self_ = std::move(self);
  StartRead(&incoming_);
}

void BridgeStream::Enqueue(Message&& message) {
  if (!outbox_.Add(std::move(message))) Close();
}

void BridgeStream::Flush() {
  if (v1::BridgeBatch* batch = outbox_.BeginWrite(Pack)) StartWrite(batch);
}

void BridgeStream::Close() {
  if (outbox_.Close()) Finish(status_);
}

void BridgeStream::OnReadDone(bool ok) {
  if (!ok) {
    // gRPC reports the end of the stream and bytes that are not a batch in the same way.
    status_ = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the stream ended, or the bytes were no batch");
    Close();
    return;
  }
  outbox_.Hold();
  std::vector<Message> messages;
  for (v1::BridgeMessage& message : *incoming_.mutable_messages()) {
    if (message.has_frame()) messages.emplace_back(std::move(*message.mutable_frame()));
    if (message.has_edge()) messages.emplace_back(std::move(*message.mutable_edge()));
  }
  receiver_->ReceiveFromBridge(std::move(messages));
  incoming_.Clear();
  if (!outbox_.is_closed()) StartRead(&incoming_);
  if (outbox_.Release()) Finish(status_);
}

void BridgeStream::OnWriteDone(bool ok) {
  if (outbox_.EndWrite()) {
    Finish(status_);
  } else if (ok) {
    Flush();
  }
}

void BridgeStream::OnCancel() { Close(); }

void BridgeStream::OnDone() {
  receiver_->BridgeEnded(this);
  self_.reset();
}

}  // namespace meshnet
