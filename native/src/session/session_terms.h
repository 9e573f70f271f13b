// The terms of one Route Session on one stage: an untrusted SessionSpec, checked and with its defaults filled in.
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
  kLocal,   // both ends in this worker
  kPeer,    // the Link service, to the peer with a certificate of that fingerprint
  kBridge,  // the agent's data connection
};

struct EdgeTerms {
  Edge edge;
  Carrier carrier = Carrier::kBridge;
  std::string peer_address;      // host:port where this end dials
  std::string peer_fingerprint;  // SHA-256 of the certificate, 32 bytes; kPeer only
  bool dial = false;
  Window window;
  v1::Codec codec = v1::CODEC_RAW;  // of a seam's rows
};

struct SessionTerms {
  SessionId session{};
  std::uint32_t epoch = 0;
  std::uint32_t stage = 0;
  std::uint32_t n_stages = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;  // of the whole generation, committed ones included
  std::uint32_t token_window = 0;
  std::chrono::milliseconds idle{};
  std::chrono::milliseconds step_deadline{};
  std::chrono::milliseconds gateway_grace{};
  std::vector<EdgeTerms> edges;
  v1::Sampling sampling;
  std::vector<std::uint32_t> end_tokens;
  std::vector<std::uint32_t> committed;
  std::uint64_t kv_cells = 0;  // reserved for the session
  bool is_exact = false;       // the route promises the unsplit model's bits

  bool is_head() const { return stage == 0; }
  bool is_tail() const { return stage + 1 == n_stages; }

  // The edges of this stage, by their part in the route.
  Edge upstream() const { return {is_head() ? kGatewayStage : stage - 1, stage}; }
  Edge downstream() const { return {stage, is_tail() ? kGatewayStage : stage + 1}; }
  Edge ring() const { return {n_stages - 1, 0}; }

  // Null if this stage may not use the edge.
  const EdgeTerms* Find(Edge edge) const;

  // Codec of the rows on an edge, and the bytes of a number of rows.
  v1::Codec CodecOf(Edge edge) const;
  std::uint64_t PackedRowsBytes(Edge edge, std::uint32_t rows, std::uint32_t elements_per_row) const;
};

// Checks a spec against a loaded shard. kMalformed, kContractMismatch, kBadTokenId, kContextFull.
Result<SessionTerms> ParseSessionTerms(const v1::SessionSpec& spec, const ShardFacts& facts);

}  // namespace meshnet

#endif  // MESHNET_SESSION_SESSION_TERMS_H_
