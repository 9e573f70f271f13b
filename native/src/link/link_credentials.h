// Two-way TLS between workers with pinned self-signed certificates. Source: docs/wire.md and gRPC's TlsCredentials.
#ifndef MESHNET_LINK_LINK_CREDENTIALS_H_
#define MESHNET_LINK_LINK_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "link/peer_identity.h"

namespace meshnet {

// Credentials that demand a client's certificate and proof of its key, but accept every certificate. PeerLinks decides
// by the fingerprint which peers may stay.
std::shared_ptr<grpc::ServerCredentials> LinkServerCredentials(const PeerIdentity& identity);

// Credentials that show this worker's certificate, and accept only a server whose certificate has `peer_fingerprint`.
std::shared_ptr<grpc::ChannelCredentials> LinkChannelCredentials(const PeerIdentity& identity,
                                                                 const std::string& peer_fingerprint);

// The fingerprint of the certificate whose key the other end of a call has proved to hold; empty if it showed none.
std::string ProvedFingerprint(const grpc::AuthContext& context);

}  // namespace meshnet

#endif  // MESHNET_LINK_LINK_CREDENTIALS_H_
