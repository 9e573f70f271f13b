// Two-way TLS between workers with pinned self-signed certificates. Source: docs/wire.md and gRPC's TlsCredentials.
#ifndef MESHNET_LINK_LINK_CREDENTIALS_H_
#define MESHNET_LINK_LINK_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "link/peer_identity.h"

namespace meshnet {

// Asks the client for a certificate and for proof of its key; the stream decides which certificates are accepted.
std::shared_ptr<grpc::ServerCredentials> LinkServerCredentials(const PeerIdentity& identity);

// Shows our certificate and accepts only the certificate with this fingerprint.
std::shared_ptr<grpc::ChannelCredentials> LinkChannelCredentials(const PeerIdentity& identity,
                                                                 const std::string& peer_fingerprint);

// The fingerprint that the other end of a call has proved; empty if it has proved none.
std::string ProvedFingerprint(const grpc::AuthContext& context);

}  // namespace meshnet

#endif  // MESHNET_LINK_LINK_CREDENTIALS_H_
