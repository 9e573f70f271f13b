#include "link/peer_identity.h"

#include <gtest/gtest.h>

#include <set>

#include "wire/digest.h"

namespace meshnet {
namespace {

// Many: a serial number that is encoded wrongly once in a hundred certificates is a link that fails once in a hundred.
TEST(PeerIdentityTest, EveryCertificateIsReadableAndItsOwn) {
  constexpr std::size_t kCount = 1000;
  std::set<std::string> fingerprints;
  for (std::size_t i = 0; i < kCount; ++i) {
    const Result<PeerIdentity> identity = CreatePeerIdentity();
    ASSERT_TRUE(identity.ok());
    ASSERT_EQ(identity.value().fingerprint.size(), kDigestBytes);
    ASSERT_EQ(FingerprintOf(identity.value().certificate_pem), identity.value().fingerprint);
    fingerprints.insert(identity.value().fingerprint);
  }
  EXPECT_EQ(fingerprints.size(), kCount);
}

TEST(PeerIdentityTest, WhatIsNoCertificateHasNoFingerprint) {
  EXPECT_EQ(FingerprintOf(""), "");
  EXPECT_EQ(FingerprintOf("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "");
}

}  // namespace
}  // namespace meshnet
