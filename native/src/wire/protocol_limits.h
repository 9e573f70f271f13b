// Protocol numbers shared with `meshnet.constants` and `meshnet.frame`; a test compares the two.
#ifndef MESHNET_WIRE_PROTOCOL_LIMITS_H_
#define MESHNET_WIRE_PROTOCOL_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace meshnet {

// Range of wire versions this worker speaks; peers settle on the highest common one.
inline constexpr std::uint32_t kWireVersionMin = 1;
inline constexpr std::uint32_t kWireVersionMax = 1;

// Version of what a shard's graph means (seam tensors, positions, ids); part of the contract digest of a route.
inline constexpr std::uint32_t kGraphSemanticsVersion = 1;

// Addresses. Source: docs/wire.md, Addresses.
inline constexpr std::size_t kSessionIdBytes = 16;
inline constexpr std::uint32_t kMaxStages = 64;
inline constexpr std::uint32_t kGatewayStage = 127;

// Sizes. Source: docs/wire.md, Frames.
inline constexpr std::size_t kMaxMessageBytes = 512 * 1024;
// Reserved for the message around a frame: LinkMessage, BridgeBatch or a relay packet.
inline constexpr std::size_t kEnvelopeReserveBytes = 1024;
inline constexpr int kMaxLinkItems = 256;                  // in a LinkMessage beside its body
inline constexpr std::uint64_t kMaxPosition = 0x7fffffff;  // llama_pos is 32-bit signed
inline constexpr std::uint32_t kMaxRows = 8192;
inline constexpr std::uint32_t kMaxTokenId = 0x7fffffff;
inline constexpr int kMaxTensors = 8;
inline constexpr std::size_t kMaxTensorNameBytes = 64;
inline constexpr std::uint32_t kMaxElementsPerRow = 1u << 20;
inline constexpr std::uint64_t kMaxTensorBytes = 256ull * 1024 * 1024;
inline constexpr std::uint32_t kMaxFragments = 4096;
inline constexpr std::uint32_t kQ80BlockElements = 32;
inline constexpr std::uint32_t kQ80BlockBytes = 34;
inline constexpr std::size_t kMaxTextBytes = 512;
inline constexpr std::uint32_t kMaxTopLogprobs = 20;

// Terms used if a SessionSpec leaves a field at 0. Source: docs/wire.md, Credits.
inline constexpr std::uint32_t kDefaultTokenWindow = 32;
inline constexpr std::uint32_t kDefaultGatewayGraceMs = 2000;
inline constexpr std::uint32_t kDefaultIdleMs = 60'000;
inline constexpr std::uint32_t kDefaultStepDeadlineMs = 30'000;

// How long a closed (session, epoch) is remembered.
inline constexpr std::uint32_t kClosedMemoryMs = 60'000;

}  // namespace meshnet

#endif  // MESHNET_WIRE_PROTOCOL_LIMITS_H_
