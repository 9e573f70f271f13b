// The gRPC service with which PeerLinks accepts the calls of peers.
#ifndef MESHNET_LINK_LINK_SERVICE_H_
#define MESHNET_LINK_LINK_SERVICE_H_

#include "link/link.h"

namespace meshnet {

class PeerLinks::Service : public v1::PeerLink::CallbackService {
 public:
  explicit Service(PeerLinks* links) : links_(links) {}

  grpc::ServerBidiReactor<v1::LinkMessage, v1::LinkMessage>* Link(grpc::CallbackServerContext* context) override;

 private:
  std::string FingerprintOfCaller(const grpc::CallbackServerContext& context) const;

  PeerLinks* const links_;
};

}  // namespace meshnet

#endif  // MESHNET_LINK_LINK_SERVICE_H_
