// This worker's identity among peers: a key and a self-signed certificate, made anew at each start and kept in memory
// only. The site tells peers the certificate's fingerprint; no authority, host name or date is checked.
#ifndef MESHNET_LINK_PEER_IDENTITY_H_
#define MESHNET_LINK_PEER_IDENTITY_H_

#include <string>

#include "wire/status.h"

namespace meshnet {

// The name in every certificate and handshake, because gRPC requires one; it proves nothing.
inline constexpr char kCertificateName[] = "meshnet-worker";

struct PeerIdentity {
  std::string private_key_pem;
  std::string certificate_pem;
  std::string fingerprint;  // SHA-256 of the certificate in DER, 32 bytes
};

Result<PeerIdentity> CreatePeerIdentity();

// The fingerprint of the first certificate in PEM text; empty if there is none.
std::string FingerprintOf(const std::string& certificate_pem);

}  // namespace meshnet

#endif  // MESHNET_LINK_PEER_IDENTITY_H_
