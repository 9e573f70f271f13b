// The part of PeerLinks that handles peers and their connections. Listening, dialling and the timer are in
// link_dial.cpp.
#include "link/link.h"

#include <algorithm>

#include "link/link_service.h"

namespace meshnet {
namespace {

constexpr std::size_t kMaxUnknownPeers = 32;
constexpr std::size_t kConnectionIdBytes = 16;
constexpr std::chrono::milliseconds kRedialMin{50};
constexpr std::chrono::milliseconds kRedialMax{1000};

TimePoint Now() { return std::chrono::steady_clock::now(); }

bool IsUsable(const v1::Hello& hello) {
  return hello.wire_version_min() <= kWireVersionMax && hello.wire_version_max() >= kWireVersionMin &&
         hello.connection().size() == kConnectionIdBytes &&
         (hello.lane() == v1::Hello::LANE_DECODE || hello.lane() == v1::Hello::LANE_BULK);
}

v1::LinkMessage ToLinkMessage(Message&& message) {
  v1::LinkMessage link;
  if (v1::Frame* frame = std::get_if<v1::Frame>(&message)) {
    *link.mutable_frame() = std::move(*frame);
  } else {
    *link.mutable_edge() = std::move(std::get<v1::EdgeMessage>(message));
  }
  return link;
}

}  // namespace

void PeerLinks::Enqueue(const std::string& fingerprint, Message&& message) {
  v1::LinkMessage link = ToLinkMessage(std::move(message));
  const bool is_bulk = link.has_frame() && link.frame().phase() == v1::PHASE_PREFILL;
  const Lane lane = is_bulk ? kBulk : kDecode;
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(fingerprint);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  peer.used_at = Now();
  if (peer.is_up()) {
    peer.lanes[lane]->Enqueue(std::move(link));
  } else if (peer.connect_by.has_value()) {
    // This queue needs no limit of its own: the windows of the admitted sessions bound it.
    peer.waiting.emplace_back(lane, std::move(link));
  }
}

void PeerLinks::Flush() {
  Streams streams;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [fingerprint, peer] : peers_) {
      if (peer.is_up()) streams.insert(streams.end(), peer.lanes.begin(), peer.lanes.end());
    }
  }
  for (const std::shared_ptr<LinkStream>& stream : streams) stream->Flush();
}

void PeerLinks::Want(const EdgeTerms& edge) {
  Streams started;
  Streams doomed;
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[edge.peer_fingerprint];
    peer.used_at = Now();
    if (edge.dial) peer.address = edge.peer_address;
    if (!peer.is_up() && !peer.connect_by.has_value()) {
      peer.connect_by = Now() + options_.connect_deadline;
      WakeTimer(*peer.connect_by);
    }
    if (edge.dial && peer.connection.empty()) started = Dial(edge.peer_fingerprint, &peer);
    AdmitPeer(edge.peer_fingerprint, &started, &doomed);
  }
  for (const auto& stream : doomed) stream->Close(grpc::StatusCode::ABORTED, "another connection took its place");
  for (const auto& stream : started) stream->Flush();
}

void PeerLinks::AdmitPeer(const std::string& fingerprint, Streams* admitted, Streams* doomed) {
  for (auto peer = unknown_peers_.begin(); peer != unknown_peers_.end();) {
    if (peer->stream->fingerprint() != fingerprint) {
      ++peer;
      continue;
    }
    Adopt(peer->stream, peer->hello, doomed);
    admitted->push_back(peer->stream);
    peer = unknown_peers_.erase(peer);
  }
}

void PeerLinks::HelloReceived(const std::shared_ptr<LinkStream>& stream, const v1::Hello& hello) {
  if (!IsUsable(hello)) {
    stream->Close(grpc::StatusCode::FAILED_PRECONDITION, "no common wire version, or an incomplete Hello");
    return;
  }
  const bool is_known = stream->is_dialled() || host_->KnowsPeer(stream->fingerprint());
  Streams doomed;
  bool is_welcome = true;
  {
    const std::lock_guard lock(mutex_);
    if (stream->is_dialled()) {
      Peer& peer = peers_[stream->fingerprint()];
      if (peer.connection == hello.connection()) {
        peer.has_hello[hello.lane() == v1::Hello::LANE_BULK ? kBulk : kDecode] = true;
        if (peer.is_up()) BringUp(&peer);
      }
    } else if (is_known) {
      stream->set_connection(hello.connection());
      Adopt(stream, hello, &doomed);
    } else if (unknown_peers_.size() < kMaxUnknownPeers) {
      stream->set_connection(hello.connection());
      unknown_peers_.push_back({stream, hello, Now() + options_.unknown_peer_grace});
      WakeTimer(unknown_peers_.back().leaves_at);
    } else {
      is_welcome = false;
    }
  }
  if (!is_welcome) stream->Close(grpc::StatusCode::PERMISSION_DENIED, "no session names this certificate");
  // A session may have opened after the host was asked and before the peer was listed as unknown, so the host is asked
  // again.
  if (!is_known && host_->KnowsPeer(stream->fingerprint())) {
    Streams admitted;
    const std::lock_guard lock(mutex_);
    AdmitPeer(stream->fingerprint(), &admitted, &doomed);
  }
  for (const auto& old : doomed) old->Close(grpc::StatusCode::ABORTED, "another connection took its place");
  Flush();
  stream->Flush();
}

// If two workers dial each other at once, they keep the connection that the worker with the smaller fingerprint
// dialled.
void PeerLinks::Adopt(const std::shared_ptr<LinkStream>& stream, const v1::Hello& hello, Streams* doomed) {
  Peer& peer = peers_[stream->fingerprint()];
  const bool is_same = peer.connection == hello.connection();
  const bool dials_itself = peer.lanes[kDecode] != nullptr && peer.lanes[kDecode]->is_dialled();
  if (!is_same && dials_itself && identity_.fingerprint < stream->fingerprint()) {
    doomed->push_back(stream);
    return;
  }
  if (!is_same) Drop(&peer, doomed);
  const Lane lane = hello.lane() == v1::Hello::LANE_BULK ? kBulk : kDecode;
  peer.connection = hello.connection();
  peer.lanes[lane] = stream;
  peer.has_hello[lane] = true;
  stream->Enqueue(HelloMessage(lane, peer.connection));
  if (peer.is_up()) BringUp(&peer);
}

void PeerLinks::BringUp(Peer* peer) {
  peer->connect_by.reset();
  peer->redial_at.reset();
  peer->failed_dials = 0;
  for (auto& [lane, message] : peer->waiting) peer->lanes[lane]->Enqueue(std::move(message));
  peer->waiting.clear();
}

void PeerLinks::Drop(Peer* peer, Streams* doomed) {
  for (std::shared_ptr<LinkStream>& stream : peer->lanes) {
    if (stream != nullptr) doomed->push_back(std::exchange(stream, nullptr));
  }
  peer->has_hello = {};
  peer->connection.clear();
}

void PeerLinks::MessagesReceived(const std::shared_ptr<LinkStream>& stream, std::vector<Message>&& messages) {
  {
    const std::lock_guard lock(mutex_);
    const auto peer = peers_.find(stream->fingerprint());
    // Only the lanes of a peer's current connection may send.
    if (peer == peers_.end() || peer->second.connection != stream->connection()) return;
  }
  const Status status = host_->ReceiveFromPeer(stream->fingerprint(), std::move(messages));
  if (status.ok()) return;
  stream->Close(grpc::StatusCode::PERMISSION_DENIED, std::string(CodeName(status.code())) + ": " + status.message());
}

void PeerLinks::StreamEnded(const std::shared_ptr<LinkStream>& stream, const std::string& why) {
  Streams doomed;
  bool is_lost = false;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(unknown_peers_, [&](const UnknownPeer& peer) { return peer.stream == stream; });
    const auto found = peers_.find(stream->fingerprint());
    if (!is_stopping_ && found != peers_.end() && !found->second.connection.empty() &&
        found->second.connection == stream->connection()) {
      Peer& peer = found->second;
      is_lost = peer.is_up();
      Drop(&peer, &doomed);
      if (is_lost) {
        peer.waiting.clear();
      } else if (stream->is_dialled()) {
        const auto backoff = std::min(kRedialMin * (1 << std::min(peer.failed_dials++, 5)), kRedialMax);
        peer.redial_at = Now() + backoff;
        WakeTimer(*peer.redial_at);
      }
    }
  }
  for (const auto& other : doomed) {
    if (other != stream) other->Close(grpc::StatusCode::ABORTED, "the connection's other lane broke");
  }
  if (is_lost) host_->PeerLost(stream->fingerprint(), "the link to the next worker broke: " + why);
  const std::lock_guard lock(mutex_);
  if (--streams_alive_ == 0) streams_done_.notify_all();
}

v1::LinkMessage PeerLinks::HelloMessage(Lane lane, const std::string& connection) const {
  v1::LinkMessage message;
  message.mutable_hello()->set_wire_version_min(kWireVersionMin);
  message.mutable_hello()->set_wire_version_max(kWireVersionMax);
  message.mutable_hello()->set_lane(lane == kBulk ? v1::Hello::LANE_BULK : v1::Hello::LANE_DECODE);
  message.mutable_hello()->set_connection(connection);
  return message;
}

}  // namespace meshnet
