// Connections to other workers: dialled or accepted as the sessions' edges say, two lanes each, one connection a peer.
//
// A peer is named by its certificate's fingerprint. It is welcome while an open session has an edge to it; an unknown
// peer waits a moment, since the site opens a route's stages in no particular order, and is then turned away. A dial
// that fails is repeated with backoff until the connect deadline; a connection that breaks is told to the host at once
// and is dialled again by the next session that wants it. Source: docs/wire.md.
#ifndef MESHNET_LINK_LINK_H_
#define MESHNET_LINK_LINK_H_

#include <grpcpp/grpcpp.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "link/link_stream.h"
#include "link/peer_identity.h"
#include "session/session_terms.h"

namespace meshnet {

struct LinkOptions {
  std::string listen_address;   // host:port, port 0 for a free one; empty: dial only
  std::string local_directory;  // where peers of this user and machine meet, see local_links.h; empty: nowhere
  std::chrono::milliseconds connect_deadline{5000};
  std::chrono::milliseconds unknown_peer_grace{2000};
};

class PeerLinks : public LinkStream::Receiver {
 public:
  // Called without locks, on gRPC's threads or the links' own.
  class Host {
   public:
    virtual ~Host() = default;
    virtual bool KnowsPeer(const std::string& fingerprint) = 0;
    // What came at once. A status that is not ok disconnects the peer.
    virtual Status ReceiveFromPeer(const std::string& fingerprint, std::vector<Message>&& messages) = 0;
    virtual void PeerLost(const std::string& fingerprint, const std::string& why) = 0;
  };

  // `host` outlives the links.
  PeerLinks(LinkOptions options, PeerIdentity identity, Host* host);
  ~PeerLinks() override;

  // Begins to listen where the options say so. kInvalidArgument: an address or a directory that cannot be used.
  Status Listen();
  const std::string& address() const { return address_; }
  const std::string& fingerprint() const { return identity_.fingerprint; }

  // Any thread. An open session has this edge: connect, or let the peer in.
  void Want(const EdgeTerms& edge);
  // Any thread; never blocks. What is sent before the connection stands waits for it.
  void Enqueue(const std::string& fingerprint, Message&& message);
  void Flush();

 private:
  enum Lane { kDecode = 0, kBulk = 1, kLanes = 2 };

  struct Peer {
    std::string address;     // to dial; empty where the peer dials
    std::string connection;  // id of the connection in use or under way
    std::array<std::shared_ptr<LinkStream>, kLanes> lanes;
    std::array<bool, kLanes> has_hello{};
    std::deque<std::pair<Lane, v1::LinkMessage>> waiting;
    std::optional<TimePoint> connect_by;
    std::optional<TimePoint> redial_at;
    int failed_dials = 0;
    TimePoint used_at;

    bool is_up() const { return has_hello[kDecode] && has_hello[kBulk]; }
  };

  struct UnknownPeer {
    std::shared_ptr<LinkStream> stream;
    v1::Hello hello;
    TimePoint leaves_at;
  };

  class Service;

  void HelloReceived(const std::shared_ptr<LinkStream>& stream, const v1::Hello& hello) override;
  void MessagesReceived(const std::shared_ptr<LinkStream>& stream, std::vector<Message>&& messages) override;
  void StreamEnded(const std::shared_ptr<LinkStream>& stream, const std::string& why) override;

  // With mutex_ held; streams to close afterwards are appended to `doomed`.
  using Streams = std::vector<std::shared_ptr<LinkStream>>;
  Streams Dial(const std::string& fingerprint, Peer* peer);
  void Adopt(const std::shared_ptr<LinkStream>& stream, const v1::Hello& hello, Streams* doomed);
  void AdmitPeer(const std::string& fingerprint, Streams* admitted, Streams* doomed);
  void BringUp(Peer* peer);
  void Drop(Peer* peer, Streams* doomed);
  v1::LinkMessage HelloMessage(Lane lane, const std::string& connection) const;

  void TimerLoop();
  void CloseIdle(const std::vector<std::string>& fingerprints);
  void WakeTimer(TimePoint at);

  const LinkOptions options_;
  const PeerIdentity identity_;
  Host* const host_;
  std::string address_;
  std::string local_path_;  // empty: not listening at a socket
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;

  std::mutex mutex_;
  std::condition_variable timer_;
  std::map<std::string, Peer> peers_;
  std::vector<UnknownPeer> unknown_peers_;
  int streams_alive_ = 0;  // dialled and accepted; the destructor waits for them
  std::condition_variable streams_done_;
  TimePoint wake_at_;
  bool is_stopping_ = false;
  std::thread timer_thread_;
};

}  // namespace meshnet

#endif  // MESHNET_LINK_LINK_H_
