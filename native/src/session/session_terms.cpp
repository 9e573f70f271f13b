#include "session/session_terms.h"

#include <algorithm>

#include "engine/sampler.h"
#include "wire/digest.h"
#include "wire/seam_codec.h"

namespace meshnet {
namespace {

constexpr int kMaxEdges = 16;
constexpr int kMaxEndTokens = 256;
constexpr int kMaxBiases = 4096;
constexpr std::uint32_t kMaxWindowFrames = 1024;
constexpr std::uint32_t kMaxTokenWindow = 4096;
constexpr std::uint32_t kMaxDeadlineMs = 24u * 3600 * 1000;

Status Malformed(const char* message) { return {Code::kMalformed, message}; }

std::chrono::milliseconds Milliseconds(std::uint32_t value, std::uint32_t fallback) {
  return std::chrono::milliseconds(std::min(value == 0 ? fallback : value, kMaxDeadlineMs));
}

Result<EdgeTerms> ParseEdge(const v1::EdgeSpec& spec, const SessionTerms& terms) {
  EdgeTerms edge;
  edge.edge = {spec.from_stage(), spec.to_stage()};
  if (!IsStage(edge.edge.from_stage) || !IsStage(edge.edge.to_stage))
    return Malformed("an edge's stage is out of range");
  if (edge.edge.from_stage != terms.stage && edge.edge.to_stage != terms.stage) {
    return Malformed("an edge joins two other stages");
  }
  switch (spec.carrier()) {
    case v1::EdgeSpec::CARRIER_LOCAL:
      if (edge.edge.from_stage != edge.edge.to_stage) return Malformed("a local edge joins two stages");
      edge.carrier = Carrier::kLocal;
      break;
    case v1::EdgeSpec::CARRIER_DIRECT:
      if (spec.peer_fingerprint().size() != kDigestBytes) return Malformed("a direct edge has no fingerprint");
      if (spec.dial() && spec.peer_address().empty()) return Malformed("an edge to dial has no address");
      edge.carrier = Carrier::kPeer;
      break;
    case v1::EdgeSpec::CARRIER_RELAY:
      edge.carrier = Carrier::kBridge;
      break;
    default:
      return Malformed("an edge has no carrier");
  }
  if (spec.window_frames() > kMaxWindowFrames || spec.window_bytes() > kMaxTensorBytes) {
    return Malformed("an edge's window is out of range");
  }
  edge.peer_address = spec.peer_address();
  edge.peer_fingerprint = spec.peer_fingerprint();
  edge.dial = spec.dial();
  edge.window = {spec.window_frames(), spec.window_bytes()};
  if (spec.codec() != v1::CODEC_UNSPECIFIED) edge.codec = spec.codec();
  return edge;
}

bool IsSeam(Edge edge) {
  return edge.from_stage != kGatewayStage && edge.to_stage != kGatewayStage && edge.from_stage < edge.to_stage;
}

// Checks an edge's codec. Any codec but raw needs a seam, rows of a width that it can pack, and a route that is not
// exact.
Status CheckCodec(const EdgeTerms& edge, const SessionTerms& terms, const ShardFacts& facts) {
  if (edge.codec == v1::CODEC_RAW) return Status::Ok();
  if (!IsSeam(edge.edge)) return Malformed("an edge that carries no rows has a codec");
  const bool is_input = edge.edge.to_stage == terms.stage;
  if (!CanPack(edge.codec, is_input ? facts.input_width : facts.output_width)) {
    return {Code::kContractMismatch, "this worker does not have the edge's codec for rows of this width"};
  }
  if (terms.is_exact) return {Code::kContractMismatch, "an exact route carries raw rows only"};
  return Status::Ok();
}

// Checks that the stage has this edge, which carries frames, and that its window holds at least one row.
Status CheckFrameEdge(const SessionTerms& terms, Edge edge, std::uint32_t elements_per_row) {
  const EdgeTerms* found = terms.Find(edge);
  if (found == nullptr) return Malformed("an edge that the stage needs is missing");
  const std::uint64_t row_bytes = terms.PackedRowsBytes(edge, 1, elements_per_row);
  if (found->window.frames < 1 || found->window.tensor_bytes < row_bytes)
    return Malformed("an edge's window is too small for one row");
  return Status::Ok();
}

Status CheckEdges(const SessionTerms& terms, const ShardFacts& facts) {
  Status status = CheckFrameEdge(terms, terms.upstream(), facts.input_width);
  if (status.ok() && !terms.is_tail()) status = CheckFrameEdge(terms, terms.downstream(), facts.output_width);
  if (status.ok() && terms.is_tail() && terms.Find(terms.downstream()) == nullptr) {
    status = Malformed("the tail has no edge to the Gateway");
  }
  const bool on_ring = terms.n_stages > 1 && (terms.is_head() || terms.is_tail());
  if (status.ok() && on_ring) status = CheckFrameEdge(terms, terms.ring(), 0);
  return status;
}

Status CheckContract(const v1::SessionSpec& spec, const ShardFacts& facts) {
  const v1::BoundaryContract& contract = facts.contract;
  if (spec.contract_digest() != contract.contract_digest()) {
    return {Code::kContractMismatch, "the route's contract digest differs"};
  }
  if (spec.recipe().empty() && spec.exact()) {
    return {Code::kContractMismatch, "an exact route must name its one recipe"};
  }
  if (!spec.recipe().empty() && spec.recipe() != contract.recipe()) {
    return {Code::kContractMismatch, "the route's recipe differs"};
  }
  if (spec.layers().layer_begin() != contract.layers().layer_begin() ||
      spec.layers().layer_end() != contract.layers().layer_end()) {
    return {Code::kContractMismatch, "the worker has other layers loaded"};
  }
  const bool is_head = spec.stage() == 0;
  const bool is_tail = spec.stage() + 1 == spec.n_stages();
  if (is_head != facts.is_head() || is_tail != facts.is_tail()) {
    return {Code::kContractMismatch, "the shard holds other ends of the model than the stage needs"};
  }
  return Status::Ok();
}

Status CheckTokens(const v1::SessionSpec& spec, std::uint32_t vocab_size) {
  if (spec.end_tokens_size() > kMaxEndTokens) return Malformed("the session has too many end tokens");
  if (static_cast<std::uint32_t>(spec.committed_size()) >= std::max(spec.max_tokens(), 1u)) {
    return Malformed("all tokens are committed; none is left to generate");
  }
  const auto known = [vocab_size](std::uint32_t id) { return id < vocab_size; };
  if (!std::all_of(spec.end_tokens().begin(), spec.end_tokens().end(), known) ||
      !std::all_of(spec.committed().begin(), spec.committed().end(), known)) {
    return {Code::kBadTokenId, "a token id is outside the vocabulary"};
  }
  if (spec.sampling().logit_bias_size() > kMaxBiases) return Malformed("the sampling parameters have too many biases");
  return CheckSampling(spec.sampling(), vocab_size);
}

Status CheckIdentity(const v1::SessionSpec& spec) {
  if (spec.session().size() != kSessionIdBytes || spec.epoch() < 1)
    return Malformed("the session lacks its id or its epoch");
  if (spec.n_stages() < 1 || spec.n_stages() > kMaxStages || spec.stage() >= spec.n_stages()) {
    return Malformed("the stage's number is out of range");
  }
  if (spec.prompt_tokens() < 1 || spec.max_tokens() < 1) return Malformed("the prompt or the answer has no token");
  if (spec.edges_size() > kMaxEdges) return Malformed("the stage has too many edges");
  return Status::Ok();
}

}  // namespace

const EdgeTerms* SessionTerms::Find(Edge edge) const {
  for (const EdgeTerms& candidate : edges) {
    if (candidate.edge == edge) return &candidate;
  }
  return nullptr;
}

v1::Codec SessionTerms::CodecOf(Edge edge) const {
  const EdgeTerms* found = Find(edge);
  return found == nullptr ? v1::CODEC_RAW : found->codec;
}

std::uint64_t SessionTerms::PackedRowsBytes(Edge edge, std::uint32_t rows, std::uint32_t elements_per_row) const {
  return PackedBytes(v1::DTYPE_F32, CodecOf(edge), rows, elements_per_row);
}

Result<SessionTerms> ParseSessionTerms(const v1::SessionSpec& spec, const ShardFacts& facts) {
  Status status = CheckIdentity(spec);
  if (status.ok()) status = CheckContract(spec, facts);
  if (status.ok()) status = CheckTokens(spec, facts.contract.vocab_size());
  if (!status.ok()) return status;
  SessionTerms terms;
  terms.session = ToSessionId(spec.session());
  terms.epoch = spec.epoch();
  terms.stage = spec.stage();
  terms.n_stages = spec.n_stages();
  terms.prompt_tokens = spec.prompt_tokens();
  terms.max_tokens = spec.max_tokens();
  terms.token_window = std::min(spec.token_window() == 0 ? kDefaultTokenWindow : spec.token_window(), kMaxTokenWindow);
  terms.idle = Milliseconds(spec.idle_ms(), kDefaultIdleMs);
  terms.step_deadline = Milliseconds(spec.step_deadline_ms(), kDefaultStepDeadlineMs);
  terms.gateway_grace = Milliseconds(spec.gateway_grace_ms(), kDefaultGatewayGraceMs);
  terms.is_exact = spec.exact();
  terms.sampling = spec.sampling();
  terms.end_tokens.assign(spec.end_tokens().begin(), spec.end_tokens().end());
  terms.committed.assign(spec.committed().begin(), spec.committed().end());
  for (const v1::EdgeSpec& edge_spec : spec.edges()) {
    Result<EdgeTerms> edge = ParseEdge(edge_spec, terms);
    if (!edge.ok()) return edge.status();
    status = CheckCodec(edge.value(), terms, facts);
    if (!status.ok()) return status;
    if (terms.Find(edge.value().edge) != nullptr) return Malformed("an edge is named twice");
    terms.edges.push_back(std::move(edge.value()));
  }
  status = CheckEdges(terms, facts);
  if (!status.ok()) return status;
  const std::uint64_t context_length = facts.contract.context_length();
  const std::uint64_t prompt = std::uint64_t{terms.prompt_tokens} + terms.committed.size();
  if (prompt > context_length) return Status(Code::kContextFull, "the prompt is longer than the context");
  terms.kv_cells = std::min<std::uint64_t>(std::uint64_t{terms.prompt_tokens} + terms.max_tokens, context_length);
  return terms;
}

}  // namespace meshnet
