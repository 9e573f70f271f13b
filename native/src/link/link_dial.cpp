// The part of PeerLinks that listens, dials and keeps deadlines. The rest is in link.cpp.
#include <openssl/rand.h>
#include <unistd.h>

#include "link/link.h"
#include "link/link_credentials.h"
#include "link/link_service.h"
#include "link/local_links.h"
#include "wire/digest.h"

namespace meshnet {
namespace {

constexpr std::size_t kConnectionIdBytes = 16;
constexpr char kUnixScheme[] = "unix:";
constexpr std::chrono::seconds kIdleConnection{60};
constexpr std::chrono::seconds kTimerMax{10};
constexpr int kKeepaliveMs = 5000;
// Bytes that a stream accepts before they are read. gRPC begins with 64 KiB and raises that from one round trip to the
// next, so the first prompt over a long distance would wait for several round trips. The larger number does no harm:
// the windows of the sessions bound the bytes in flight.
constexpr int kStreamWindowBytes = 4 * 1024 * 1024;
// gRPC's own limit is two minutes: unknown peers that only connect could hold every descriptor for that long.
constexpr int kHandshakeMs = 5000;

TimePoint Now() { return std::chrono::steady_clock::now(); }

std::string RandomConnectionId() {
  std::string id(kConnectionIdBytes, '\0');
  RAND_bytes(reinterpret_cast<unsigned char*>(id.data()), static_cast<int>(id.size()));
  return id;
}

std::string FromHex(std::string_view hex) {
  if (hex.size() != 2 * kDigestBytes) return {};
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
    bytes.push_back(static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return bytes;
}

bool IsLocal(const grpc::CallbackServerContext& context) { return context.peer().rfind(kUnixScheme, 0) == 0; }

// Refuses a call whose caller has shown no certificate or claimed no fingerprint.
class Refusal : public grpc::ServerBidiReactor<v1::LinkMessage, v1::LinkMessage> {
 public:
  Refusal() {
    Finish(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "no certificate was shown, or no fingerprint claimed"));
  }
  void OnDone() override { delete this; }
};

}  // namespace

PeerLinks::PeerLinks(LinkOptions options, PeerIdentity identity, Host* host)
    : options_(std::move(options)),
      identity_(std::move(identity)),
      host_(host),
      service_(std::make_unique<Service>(this)),
      wake_at_(Now() + kTimerMax) {
  timer_thread_ = std::thread([this] { TimerLoop(); });
}

PeerLinks::~PeerLinks() {
  Streams doomed;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (auto& [fingerprint, peer] : peers_) Drop(&peer, &doomed);
    for (const UnknownPeer& peer : unknown_peers_) doomed.push_back(peer.stream);
    unknown_peers_.clear();
  }
  timer_.notify_all();
  timer_thread_.join();
  for (const auto& stream : doomed) stream->Close(grpc::StatusCode::UNAVAILABLE, "the worker is ending");
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  if (!local_path_.empty()) unlink(local_path_.c_str());
  std::unique_lock lock(mutex_);
  streams_done_.wait(lock, [this] { return streams_alive_ == 0; });
}

Status PeerLinks::Listen() {
  if (!options_.local_directory.empty()) {
    const Status usable = CheckLocalLinks(options_.local_directory);
    if (!usable.ok()) return usable;
  }
  if (options_.listen_address.empty()) return Status::Ok();
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options_.listen_address, LinkServerCredentials(identity_), &port);
  if (!options_.local_directory.empty()) {
    RemoveDeadLinks(options_.local_directory);
    local_path_ = LocalLinkPath(options_.local_directory, identity_.fingerprint);
    builder.AddListeningPort(kUnixScheme + local_path_, grpc::InsecureServerCredentials());
  }
  builder.RegisterService(service_.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveMs / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0)
    return {Code::kInvalidArgument, "cannot listen at the link address " + options_.listen_address +
                                        (local_path_.empty() ? "" : " or at " + local_path_)};
  address_ = options_.listen_address.substr(0, options_.listen_address.rfind(':')) + ":" + std::to_string(port);
  return Status::Ok();
}

PeerLinks::Streams PeerLinks::Dial(const std::string& fingerprint, Peer* peer) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Connections are never shared: each is pinned to its own certificate.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetSslTargetNameOverride(kCertificateName);
  // The socket may be left from a worker that has ended, or its worker may not have the session yet. So dials try the
  // local socket and the network address in turn.
  const bool is_local = peer->failed_dials % 2 == 0 && !options_.local_directory.empty() &&
                        HasLocalLink(options_.local_directory, fingerprint);
  const std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
      is_local ? kUnixScheme + LocalLinkPath(options_.local_directory, fingerprint) : peer->address,
      is_local ? grpc::InsecureChannelCredentials() : LinkChannelCredentials(identity_, fingerprint), arguments);
  peer->redial_at.reset();
  peer->connection = RandomConnectionId();
  Streams started;
  for (const Lane lane : {kDecode, kBulk}) {
    auto stream = std::make_shared<DialledLinkStream>(this, channel, fingerprint);
    stream->set_connection(peer->connection);
    peer->lanes[lane] = stream;
    ++streams_alive_;
    stream->Enqueue(HelloMessage(lane, peer->connection));
    stream->Start(stream, is_local ? ToHex(identity_.fingerprint) : std::string());
    started.push_back(std::move(stream));
  }
  return started;
}

void PeerLinks::WakeTimer(TimePoint at) {
  if (at >= wake_at_) return;
  wake_at_ = at;
  timer_.notify_one();
}

void PeerLinks::TimerLoop() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    timer_.wait_until(lock, wake_at_, [this] { return is_stopping_ || Now() >= wake_at_; });
    if (is_stopping_) return;
    const TimePoint now = Now();
    wake_at_ = now + kTimerMax;
    Streams doomed;
    Streams overdue;
    Streams started;
    std::vector<std::string> unreachable;
    std::vector<std::string> idle;
    for (auto& [fingerprint, peer] : peers_) {
      if (peer.connect_by.has_value() && *peer.connect_by <= now) {
        peer.connect_by.reset();
        peer.redial_at.reset();
        peer.failed_dials = 0;
        peer.waiting.clear();
        Drop(&peer, &doomed);
        unreachable.push_back(fingerprint);
      } else if (peer.redial_at.has_value() && *peer.redial_at <= now) {
        const Streams dialled = Dial(fingerprint, &peer);
        started.insert(started.end(), dialled.begin(), dialled.end());
      }
      if (peer.connect_by.has_value()) wake_at_ = std::min(wake_at_, *peer.connect_by);
      if (peer.redial_at.has_value()) wake_at_ = std::min(wake_at_, *peer.redial_at);
      if (now - peer.used_at > kIdleConnection) idle.push_back(fingerprint);
    }
    for (auto peer = unknown_peers_.begin(); peer != unknown_peers_.end();) {
      if (peer->leaves_at <= now) {
        overdue.push_back(peer->stream);
        peer = unknown_peers_.erase(peer);
      } else {
        wake_at_ = std::min(wake_at_, peer->leaves_at);
        ++peer;
      }
    }
    lock.unlock();
    for (const auto& stream : doomed) stream->Close(grpc::StatusCode::DEADLINE_EXCEEDED, "no connection in time");
    for (const auto& stream : overdue) {
      stream->Close(grpc::StatusCode::PERMISSION_DENIED, "no session names this certificate");
    }
    for (const auto& stream : started) stream->Flush();
    for (const std::string& fingerprint : unreachable) {
      host_->PeerLost(fingerprint, "the next worker could not be reached");
    }
    CloseIdle(idle);
    lock.lock();
  }
}

// Closes the connections to these peers that were not used for kIdleConnection, if no session has an edge to the peer.
void PeerLinks::CloseIdle(const std::vector<std::string>& fingerprints) {
  Streams doomed;
  for (const std::string& fingerprint : fingerprints) {
    if (host_->KnowsPeer(fingerprint)) continue;
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(fingerprint);
    if (found == peers_.end() || Now() - found->second.used_at <= kIdleConnection) continue;
    Drop(&found->second, &doomed);
    peers_.erase(found);
  }
  for (const auto& stream : doomed) stream->Close(grpc::StatusCode::OK, "nothing to say");
}

std::string PeerLinks::Service::FingerprintOfCaller(const grpc::CallbackServerContext& context) const {
  if (!IsLocal(context)) return ProvedFingerprint(*context.auth_context());
  const auto claimed = context.client_metadata().find(kClaimedFingerprintHeader);
  if (claimed == context.client_metadata().end()) return {};
  return FromHex({claimed->second.data(), claimed->second.size()});
}

grpc::ServerBidiReactor<v1::LinkMessage, v1::LinkMessage>* PeerLinks::Service::Link(
    grpc::CallbackServerContext* context) {
  std::string fingerprint = FingerprintOfCaller(*context);
  if (fingerprint.empty()) return new Refusal();
  auto stream = std::make_shared<AcceptedLinkStream>(links_, context, std::move(fingerprint));
  {
    const std::lock_guard lock(links_->mutex_);
    ++links_->streams_alive_;
  }
  stream->Start(stream);
  return stream.get();
}

}  // namespace meshnet
