#include "wire/edge_codec.h"

#include <cmath>

#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

constexpr std::size_t kMaxCodeBytes = 64;

Status Malformed(const char* message) { return {Code::kMalformed, message}; }

Status CheckToken(const v1::TokenEvent& token) {
  if (token.token_id() > kMaxTokenId) return {Code::kBadTokenId, "a token id is out of range"};
  if (token.position() > kMaxPosition) return Malformed("a position is out of range");
  if (token.index() > kMaxPosition) return Malformed("an index is out of range");
  if (token.finish() < v1::FINISH_REASON_UNSPECIFIED || token.finish() > v1::FINISH_REASON_LENGTH) {
    return Malformed("the finish reason is unknown");
  }
  if (static_cast<std::uint32_t>(token.top_logprobs_size()) > kMaxTopLogprobs)
    return Malformed("a token has too many alternatives");
  bool finite = std::isfinite(token.logprob());
  for (const v1::TokenLogprob& entry : token.top_logprobs()) finite = finite && std::isfinite(entry.logprob());
  if (!finite) return {Code::kNotFinite, "a logprob is not finite"};
  for (const v1::TokenLogprob& entry : token.top_logprobs()) {
    if (entry.token_id() > kMaxTokenId) return {Code::kBadTokenId, "an alternative's token id is out of range"};
  }
  return CheckResidence(token.residence());
}

Status CheckFailure(const v1::StageFailure& failure) {
  bool named = !failure.code().empty() && failure.code().size() <= kMaxCodeBytes;
  for (const char c : failure.code()) named = named && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_');
  if (!named) return Malformed("a failure has no valid code");
  if (failure.stage() >= kMaxStages) return Malformed("a failure's stage is out of range");
  if (failure.message().size() > kMaxTextBytes) return Malformed("a text is too long");
  return Status::Ok();
}

Status CheckText(const std::string& text) {
  return text.size() <= kMaxTextBytes ? Status::Ok() : Malformed("a text is too long");
}

}  // namespace

Result<v1::EdgeMessage> ParseEdgeMessage(std::string_view bytes, std::size_t limit_bytes) {
  if (bytes.size() > limit_bytes) return Status(Code::kMessageTooLarge, "the message is longer than its limit");
  v1::EdgeMessage message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Malformed("the bytes are not an edge message");
  }
  Status status = CheckAddress(message.session(), message.epoch(), message.from_stage(), message.to_stage());
  if (status.ok()) status = CheckEdgeMessage(message);
  if (!status.ok()) return status;
  return message;
}

Status CheckEdgeMessage(const v1::EdgeMessage& message) {
  switch (message.body_case()) {
    case v1::EdgeMessage::kAck:
    case v1::EdgeMessage::kKeepalive:
      return Status::Ok();
    case v1::EdgeMessage::kToken:
      return CheckToken(message.token());
    case v1::EdgeMessage::kPrefill:
      if (message.prefill().done() > kMaxPosition) return Malformed("a position is out of range");
      return CheckResidence(message.prefill().residence());
    case v1::EdgeMessage::kGone:
      return CheckText(message.gone().reason());
    case v1::EdgeMessage::kFailure:
      return CheckFailure(message.failure());
    case v1::EdgeMessage::kClose:
      return CheckText(message.close().reason());
    case v1::EdgeMessage::BODY_NOT_SET:
      break;
  }
  return Malformed("an edge message has no body");
}

}  // namespace meshnet
