#include "link/link_credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

namespace meshnet {
namespace {

namespace tls = grpc::experimental;

// Runs on gRPC's threads, after the handshake has proved that the peer holds the certificate's key.
class PinnedCertificate : public tls::ExternalCertificateVerifier {
 public:
  explicit PinnedCertificate(std::string fingerprint) : fingerprint_(std::move(fingerprint)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)> /*callback*/,
              grpc::Status* status) override {
    const grpc::string_ref pem = request->peer_cert();
    const bool matches = FingerprintOf(std::string(pem.data(), pem.size())) == fingerprint_;
    *status = matches ? grpc::Status::OK : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "another certificate");
    return true;
  }

  void Cancel(tls::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const std::string fingerprint_;
};

std::shared_ptr<tls::CertificateProviderInterface> Provider(const PeerIdentity& identity) {
  return std::make_shared<tls::StaticDataCertificateProvider>(
      std::vector<tls::IdentityKeyCertPair>{{identity.private_key_pem, identity.certificate_pem}});
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> LinkServerCredentials(const PeerIdentity& identity) {
  tls::TlsServerCredentialsOptions options(Provider(identity));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return tls::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> LinkChannelCredentials(const PeerIdentity& identity,
                                                                 const std::string& peer_fingerprint) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Provider(identity));
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);  // no chain and no dates are checked: the pinned certificate decides
  options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<PinnedCertificate>(peer_fingerprint));
  options.set_check_call_host(false);
  return tls::TlsCredentials(options);
}

std::string ProvedFingerprint(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> certificates = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (certificates.empty()) return {};
  return FingerprintOf(std::string(certificates[0].data(), certificates[0].size()));
}

}  // namespace meshnet
