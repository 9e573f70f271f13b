// Frames and edge messages, held to the same bytes as the Python half.
#include <gtest/gtest.h>

#include "vectors.h"
#include "wire/digest.h"
#include "wire/edge_codec.h"
#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

using Json = nlohmann::json;

std::string Name(const std::string& prefixed, const std::string& prefix) { return prefixed.substr(prefix.size()); }

Json ResidenceJson(const google::protobuf::RepeatedPtrField<v1::StageResidence>& residence) {
  Json entries = Json::array();
  for (const v1::StageResidence& entry : residence) {
    entries.push_back({{"stage", entry.stage()},
                       {"queue_us", entry.queue_us()},
                       {"compute_us", entry.compute_us()},
                       {"codec_us", entry.codec_us()}});
  }
  return entries;
}

Json FragmentJson(const v1::Frame& frame) {
  if (!frame.has_fragment()) return nullptr;
  const v1::Fragment& fragment = frame.fragment();
  return {{"index", fragment.index()},
          {"count", fragment.count()},
          {"offset_bytes", fragment.offset_bytes()},
          {"total_bytes", fragment.total_bytes()}};
}

Json FrameJson(const v1::Frame& frame) {
  Json tensors = Json::array();
  for (const v1::Tensor& tensor : frame.tensors()) {
    tensors.push_back({{"name", tensor.name()},
                       {"dtype", Name(v1::DType_Name(tensor.dtype()), "DTYPE_")},
                       {"shape", std::vector<std::uint32_t>(tensor.shape().begin(), tensor.shape().end())},
                       {"codec", Name(v1::Codec_Name(tensor.codec()), "CODEC_")},
                       {"data", ToHex(tensor.data())}});
  }
  return {{"session", ToHex(frame.session())},
          {"epoch", frame.epoch()},
          {"from_stage", frame.from_stage()},
          {"to_stage", frame.to_stage()},
          {"seq", frame.seq()},
          {"phase", Name(v1::Phase_Name(frame.phase()), "PHASE_")},
          {"position", frame.position()},
          {"rows", frame.rows()},
          {"rewind", frame.rewind()},
          {"prompt_end", frame.prompt_end()},
          {"token_ids", std::vector<std::uint32_t>(frame.token_ids().begin(), frame.token_ids().end())},
          {"tensors", tensors},
          {"logits_rows", std::vector<std::uint32_t>(frame.logits_rows().begin(), frame.logits_rows().end())},
          {"budget_ms", frame.budget_ms()},
          {"residence", ResidenceJson(frame.residence())},
          {"fragment", FragmentJson(frame)}};
}

Json TokenJson(const v1::TokenEvent& token) {
  Json top = Json::array();
  for (const v1::TokenLogprob& entry : token.top_logprobs()) {
    top.push_back({{"token_id", entry.token_id()}, {"logprob", entry.logprob()}});
  }
  Json finish = nullptr;
  if (token.finish() != v1::FINISH_REASON_UNSPECIFIED) {
    finish = Name(v1::FinishReason_Name(token.finish()), "FINISH_REASON_");
  }
  return {{"index", token.index()},       {"token_id", token.token_id()},
          {"position", token.position()}, {"finish", finish},
          {"choice", token.choice()},     {"logprob", token.has_logprob() ? Json(token.logprob()) : Json()},
          {"top_logprobs", top},          {"residence", ResidenceJson(token.residence())}};
}

Json EdgeJson(const v1::EdgeMessage& message) {
  Json json = {{"session", ToHex(message.session())},
               {"epoch", message.epoch()},
               {"from_stage", message.from_stage()},
               {"to_stage", message.to_stage()}};
  const auto body = [&json](const char* kind, Json fields) {
    json["kind"] = kind;
    json["body"] = std::move(fields);
    return json;
  };
  switch (message.body_case()) {
    case v1::EdgeMessage::kAck:
      return body("ack", {{"seq", message.ack().seq()}});
    case v1::EdgeMessage::kToken:
      return body("token", TokenJson(message.token()));
    case v1::EdgeMessage::kPrefill:
      return body("prefill",
                  {{"done", message.prefill().done()}, {"residence", ResidenceJson(message.prefill().residence())}});
    case v1::EdgeMessage::kGone:
      return body("gone", {{"reason", message.gone().reason()}});
    case v1::EdgeMessage::kFailure:
      return body("failure", {{"code", message.failure().code()},
                              {"message", message.failure().message()},
                              {"stage", message.failure().stage()}});
    case v1::EdgeMessage::kClose:
      return body("close", {{"reason", message.close().reason()}});
    case v1::EdgeMessage::kKeepalive:
      return body("keepalive", Json::object());
    case v1::EdgeMessage::BODY_NOT_SET:
      break;
  }
  return json;
}

std::size_t Limit(const Json& vector) {
  return vector.at("limit_bytes").is_null() ? kMaxMessageBytes : vector.at("limit_bytes").get<std::size_t>();
}

TEST(FrameVectorsTest, GoodOnesDecodeAndEncodeToTheSameBytes) {
  const Json vectors = LoadVectors("frames.json").at("good");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const std::string bytes = FromHex(vector.at("hex"));
    const Result<v1::Frame> frame = ParseFrame(bytes);
    ASSERT_TRUE(frame.ok()) << frame.status().message();
    EXPECT_EQ(FrameJson(frame.value()), vector.at("fields"));
    EXPECT_EQ(ToHex(SerialiseFrame(frame.value())), vector.at("hex").get<std::string>());
  }
}

TEST(FrameVectorsTest, BadOnesAreRefusedWithTheirCode) {
  const Json vectors = LoadVectors("frames.json").at("bad");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const Result<v1::Frame> frame = ParseFrame(FromHex(vector.at("hex")), Limit(vector));
    ASSERT_FALSE(frame.ok());
    EXPECT_EQ(CodeName(frame.status().code()), vector.at("code").get<std::string>());
  }
}

TEST(EdgeMessageVectorsTest, GoodOnesDecodeAndEncodeToTheSameBytes) {
  const Json vectors = LoadVectors("edge_messages.json").at("good");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const Result<v1::EdgeMessage> message = ParseEdgeMessage(FromHex(vector.at("hex")));
    ASSERT_TRUE(message.ok()) << message.status().message();
    EXPECT_EQ(EdgeJson(message.value()), vector.at("fields"));
    EXPECT_EQ(ToHex(message.value().SerializeAsString()), vector.at("hex").get<std::string>());
  }
}

TEST(EdgeMessageVectorsTest, BadOnesAreRefusedWithTheirCode) {
  const Json vectors = LoadVectors("edge_messages.json").at("bad");
  ASSERT_GT(vectors.size(), 0u);
  for (const Json& vector : vectors) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const Result<v1::EdgeMessage> message = ParseEdgeMessage(FromHex(vector.at("hex")), Limit(vector));
    ASSERT_FALSE(message.ok());
    EXPECT_EQ(CodeName(message.status().code()), vector.at("code").get<std::string>());
  }
}

}  // namespace
}  // namespace meshnet
