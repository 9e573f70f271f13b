// Turns untrusted bytes into checked edge messages, by the rules of tensor_codec.h. All functions are pure and may be
// called from any thread.
#ifndef MESHNET_WIRE_EDGE_CODEC_H_
#define MESHNET_WIRE_EDGE_CODEC_H_

#include <cstddef>
#include <string_view>

#include "meshnet/v1/session.pb.h"
#include "wire/protocol_limits.h"
#include "wire/status.h"

namespace meshnet {

// Reads and checks one edge message.
Result<v1::EdgeMessage> ParseEdgeMessage(std::string_view bytes, std::size_t limit_bytes = kMaxMessageBytes);

// Whether the fields of a message agree with each other; its address was checked before.
Status CheckEdgeMessage(const v1::EdgeMessage& message);

}  // namespace meshnet

#endif  // MESHNET_WIRE_EDGE_CODEC_H_
