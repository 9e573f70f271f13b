// Connections to other workers (peers). The edges of the open sessions say which peers this worker dials and which it
// accepts. There is one connection with each peer, which consists of two lanes: one for prefill frames, one for all
// other messages.
//
// A peer is identified by its certificate's fingerprint. It is accepted while an open session has an edge to it. Any
// other peer is unknown: it waits for a moment, since the site opens a route's stages in no particular order, and is
// then refused. If a dial fails, it is repeated with backoff until the connect deadline. If a connection breaks, the
// host is told at once, and the next session that has an edge to the peer dials again. Source: docs/wire.md.
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
  std::string local_directory;  // sockets of this user's workers (local_links.h); empty: none
  std::chrono::milliseconds connect_deadline{5000};
  std::chrono::milliseconds unknown_peer_grace{2000};
};

class PeerLinks : public LinkStream::Receiver {
 public:
  // PeerLinks calls these methods on gRPC's threads or on its timer thread, and holds no lock meanwhile.
  class Host {
   public:
    virtual ~Host() = default;
    virtual bool KnowsPeer(const std::string& fingerprint) = 0;
    // Takes messages that arrived together. If the returned status is not ok, the connection to the peer is closed.
    virtual Status ReceiveFromPeer(const std::string& fingerprint, std::vector<Message>&& messages) = 0;
    virtual void PeerLost(const std::string& fingerprint, const std::string& why) = 0;
  };

  // `host` must outlive this object.
  PeerLinks(LinkOptions options, PeerIdentity identity, Host* host);
  ~PeerLinks() override;

  // Begins to listen at the address of the options, if they have one, and then also in their directory, if they have
  // one. kInvalidArgument if the address or the directory cannot be used.
  Status Listen();
  const std::string& address() const { return address_; }
  const std::string& fingerprint() const { return identity_.fingerprint; }

  // Any thread. Call when a session with this edge was opened: dials the edge's peer, or accepts its connection.
  void Want(const EdgeTerms& edge);
  // Any thread; never blocks. Queues a message for a peer; it waits until the connection is up.
  void Enqueue(const std::string& fingerprint, Message&& message);
  // Any thread; never blocks. Begins to write the queued messages of all connections.
  void Flush();

 private:
  enum Lane { kDecode = 0, kBulk = 1, kLanes = 2 };

  struct Peer {
    std::string address;     // at which to dial the peer; empty if the peer dials
    std::string connection;  // id of the connection that is up or being opened; empty if there is none
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

  using Streams = std::vector<std::shared_ptr<LinkStream>>;
  // Call the functions from here to HelloMessage with mutex_ held. They append to `doomed` the streams that the caller
  // must close once it has released mutex_. Dial opens a connection's lanes and returns them.
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
  std::string local_path_;  // path of the socket for local peers; empty if there is none
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
