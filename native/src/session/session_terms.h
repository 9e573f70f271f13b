// The terms of one Route Session on one stage: the contents of an untrusted SessionSpec, checked and with defaults
// filled in.
#ifndef MESHNET_SESSION_SESSION_TERMS_H_
#define MESHNET_SESSION_SESSION_TERMS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/shard_engine.h"
#include "meshnet/v1/session.pb.h"
#include "session/edge.h"
#include "wire/identity.h"
#include "wire/status.h"

namespace meshnet {

enum class Carrier {
  kLocal,   // the edge begins and ends in this worker
  kPeer,    // a direct connection to the worker with this certificate fingerprint
  kBridge,  // through the agent's bridge and its data connection
};

struct EdgeTerms {
  Edge edge;
  Carrier carrier = Carrier::kBridge;
  std::string peer_address;      // host:port to connect to if `dial`
  std::string peer_fingerprint;  // SHA-256 of the peer's certificate, 32 bytes; kPeer only
  bool dial = false;             // whether this worker makes the connection; kPeer only
  Window window;
  v1::Codec codec = v1::CODEC_RAW;  // how a seam's rows are packed
};

struct SessionTerms {
  SessionId session{};
  std::uint32_t epoch = 0;
  std::uint32_t stage = 0;
  std::uint32_t n_stages = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;  // of the whole generation, including `committed`
  std::uint32_t token_window = 0;
  std::chrono::milliseconds idle{};
  std::chrono::milliseconds step_deadline{};
  std::chrono::milliseconds gateway_grace{};
  std::vector<EdgeTerms> edges;
  v1::Sampling sampling;
  std::vector<std::uint32_t> end_tokens;
  std::vector<std::uint32_t> committed;
  std::uint64_t kv_cells = 0;  // reserved for the session
  bool is_exact = false;       // results must have the same bits as the unsplit model's

  bool is_head() const { return stage == 0; }
  bool is_tail() const { return stage + 1 == n_stages; }

  // The edge from the stage before, the edge to the next stage, and the edge from the tail to the head. The Gateway
  // stands before the head and after the tail.
  Edge upstream() const { return {is_head() ? kGatewayStage : stage - 1, stage}; }
  Edge downstream() const { return {stage, is_tail() ? kGatewayStage : stage + 1}; }
  Edge ring() const { return {n_stages - 1, 0}; }

  // The terms of an edge; null if the session has no such edge on this stage.
  const EdgeTerms* Find(Edge edge) const;

  // The codec of an edge's rows; raw if this stage has no such edge.
  v1::Codec CodecOf(Edge edge) const;
  // Bytes that f32 rows take when packed with the edge's codec.
  std::uint64_t PackedRowsBytes(Edge edge, std::uint32_t rows, std::uint32_t elements_per_row) const;
};

// Checks a session's spec against the loaded shard and returns the session's terms. kMalformed if a field is missing or
// out of range; kContractMismatch if the route's contract, recipe, layers or codecs do not fit the shard; kBadTokenId
// if a token id is outside the vocabulary; kContextFull if the prompt is longer than the context.
Result<SessionTerms> ParseSessionTerms(const v1::SessionSpec& spec, const ShardFacts& facts);

}  // namespace meshnet

#endif  // MESHNET_SESSION_SESSION_TERMS_H_
