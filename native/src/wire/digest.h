// SHA-256 digests and hexadecimal text.
#ifndef MESHNET_WIRE_DIGEST_H_
#define MESHNET_WIRE_DIGEST_H_

#include <string>
#include <string_view>

namespace meshnet {

inline constexpr std::size_t kDigestBytes = 32;

// The SHA-256 digest of `bytes`; it is kDigestBytes long.
std::string Sha256(std::string_view bytes);

// Two lower-case hexadecimal digits for each byte.
std::string ToHex(std::string_view bytes);

}  // namespace meshnet

#endif  // MESHNET_WIRE_DIGEST_H_
