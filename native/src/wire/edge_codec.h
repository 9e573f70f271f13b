// Turns untrusted bytes into checked edge messages. The invariants of tensor_codec.h hold here too. All functions are
// pure and may be called from any thread.
#ifndef MESHNET_WIRE_EDGE_CODEC_H_
#define MESHNET_WIRE_EDGE_CODEC_H_

#include <cstddef>
#include <string_view>

#include "meshnet/v1/session.pb.h"
#include "wire/protocol_limits.h"
#include "wire/status.h"

namespace meshnet {

// Parses one edge message of at most `limit_bytes` bytes and checks it with CheckAddress and CheckEdgeMessage.
Result<v1::EdgeMessage> ParseEdgeMessage(std::string_view bytes, std::size_t limit_bytes = kMaxMessageBytes);

// Checks that the fields of a message are in range. CheckAddress must have accepted its address.
Status CheckEdgeMessage(const v1::EdgeMessage& message);

}  // namespace meshnet

#endif  // MESHNET_WIRE_EDGE_CODEC_H_
