#include "link/peer_identity.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>

#include <cstdint>
#include <memory>

#include "wire/digest.h"

namespace meshnet {
namespace {

struct Deleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};
template <typename T>
using Owned = std::unique_ptr<T, Deleter>;

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::string FingerprintOfCertificate(X509* certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  if (size <= 0) return {};
  const std::string fingerprint = Sha256({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
  OPENSSL_free(der);
  return fingerprint;
}

// Valid from 1970 to 9999: the clocks of volunteers' machines are wrong, and only the fingerprint counts.
bool FillCertificate(X509* certificate, EVP_PKEY* key) {
  std::uint64_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) != 1) return false;
  ASN1_INTEGER* number = X509_get_serialNumber(certificate);
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto* common_name = reinterpret_cast<const unsigned char*>(kCertificateName);
  return X509_set_version(certificate, 2) == 1 && ASN1_INTEGER_set_uint64(number, serial) == 1 &&
         ASN1_TIME_set_string(X509_getm_notBefore(certificate), "19700101000000Z") == 1 &&
         ASN1_TIME_set_string(X509_getm_notAfter(certificate), "99991231235959Z") == 1 &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common_name, -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1 &&
         X509_sign(certificate, key, EVP_sha256()) > 0;
}

}  // namespace

Result<PeerIdentity> CreatePeerIdentity() {
  const Status failed(Code::kEngineFailed, "no certificate could be made");
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const Owned<X509> certificate(X509_new());
  if (key == nullptr || certificate == nullptr || !FillCertificate(certificate.get(), key.get())) return failed;
  const Owned<BIO> key_pem(BIO_new(BIO_s_mem()));
  const Owned<BIO> certificate_pem(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      PEM_write_bio_X509(certificate_pem.get(), certificate.get()) != 1) {
    return failed;
  }
  return PeerIdentity{Contents(key_pem.get()), Contents(certificate_pem.get()),
                      FingerprintOfCertificate(certificate.get())};
}

std::string FingerprintOf(const std::string& certificate_pem) {
  const Owned<BIO> bio(BIO_new_mem_buf(certificate_pem.data(), static_cast<int>(certificate_pem.size())));
  if (bio == nullptr) return {};
  const Owned<X509> certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  return certificate == nullptr ? std::string() : FingerprintOfCertificate(certificate.get());
}

}  // namespace meshnet
