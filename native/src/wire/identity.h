// Identifiers of a Route Session and of its edges. Source: docs/wire.md, Addresses.
#ifndef MESHNET_WIRE_IDENTITY_H_
#define MESHNET_WIRE_IDENTITY_H_

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#include "wire/protocol_limits.h"

namespace meshnet {

using SessionId = std::array<std::uint8_t, kSessionIdBytes>;

// Converts the bytes of a session id, of which there must be kSessionIdBytes.
inline SessionId ToSessionId(const std::string& bytes) {
  SessionId id{};
  std::memcpy(id.data(), bytes.data(), std::min(bytes.size(), id.size()));
  return id;
}

inline std::string ToBytes(const SessionId& id) { return {id.begin(), id.end()}; }

// A directed pair of stages; kGatewayStage stands for the Gateway.
struct Edge {
  std::uint32_t from_stage = 0;
  std::uint32_t to_stage = 0;

  auto operator<=>(const Edge&) const = default;
};

inline bool IsStage(std::uint32_t stage) { return stage < kMaxStages || stage == kGatewayStage; }

// Session ids are random, so their first bytes are a good hash.
struct SessionIdHash {
  std::size_t operator()(const SessionId& id) const {
    std::size_t hash = 0;
    std::memcpy(&hash, id.data(), sizeof(hash));
    return hash;
  }
};

}  // namespace meshnet

#endif  // MESHNET_WIRE_IDENTITY_H_
