// Numbers of the protocol. `meshnet.constants` and `meshnet.frame` hold the same numbers for Python; a test compares
// them.
#ifndef MESHNET_WIRE_PROTOCOL_LIMITS_H_
#define MESHNET_WIRE_PROTOCOL_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace meshnet {

// Lowest and highest wire version that this worker speaks. Peers use the highest version that both speak.
inline constexpr std::uint32_t kWireVersionMin = 1;
inline constexpr std::uint32_t kWireVersionMax = 1;

// Version of the meaning of a shard's inputs and outputs: seam tensors, positions, token ids. It is part of the
// contract digest.
inline constexpr std::uint32_t kGraphSemanticsVersion = 1;

// Limits of sessions' and stages' addresses. Source: docs/wire.md, Addresses.
inline constexpr std::size_t kSessionIdBytes = 16;
inline constexpr std::uint32_t kMaxStages = 64;
inline constexpr std::uint32_t kGatewayStage = 127;

// Limits of messages and frames. Source: docs/wire.md, Frames.
inline constexpr std::size_t kMaxMessageBytes = 512 * 1024;
// Bytes of a message that are reserved for what is around its frame: a LinkMessage, a BridgeBatch or a relay packet.
inline constexpr std::size_t kEnvelopeReserveBytes = 1024;
inline constexpr int kMaxLinkItems = 256;                  // items of a LinkMessage beside its body
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

// Values that are used if a SessionSpec leaves the field at 0. Source: docs/wire.md, Credits.
inline constexpr std::uint32_t kDefaultTokenWindow = 32;
inline constexpr std::uint32_t kDefaultGatewayGraceMs = 2000;
inline constexpr std::uint32_t kDefaultIdleMs = 60'000;
inline constexpr std::uint32_t kDefaultStepDeadlineMs = 30'000;

// How long a pair of session and epoch is remembered after it was closed, so that it is not opened again.
inline constexpr std::uint32_t kClosedMemoryMs = 60'000;

}  // namespace meshnet

#endif  // MESHNET_WIRE_PROTOCOL_LIMITS_H_
