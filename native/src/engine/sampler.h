// Draws the next token from raw logits. Chance enters only by seed, position and choice, so a draw can be repeated.
// Source: docs/wire.md, Sampling.
#ifndef MESHNET_ENGINE_SAMPLER_H_
#define MESHNET_ENGINE_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "meshnet/v1/session.pb.h"
#include "wire/status.h"

namespace meshnet {

// Checks that all numbers in `sampling` are finite and in range (kMalformed), and that it has biases only for token ids
// below `vocab_size` (kBadTokenId).
Status CheckSampling(const v1::Sampling& sampling, std::uint32_t vocab_size);

struct SampledToken {
  std::uint32_t token_id = 0;
  std::optional<float> logprob;       // none if the settings do not ask for logprobs
  std::vector<v1::TokenLogprob> top;  // the likeliest tokens: by logprob descending, then by id ascending
};

// Draws the tokens of one generation and counts them for the penalties. Not thread-safe; owned by the compute thread.
class Sampler {
 public:
  // `sampling` has passed CheckSampling. `committed`: the tokens that earlier epochs of the session generated; they
  // count for the penalties.
  Sampler(const v1::Sampling& sampling, std::span<const std::uint32_t> committed);

  // Draws the token at `position` and counts it. `logits`: [vocab_size], all finite.
  SampledToken Sample(std::span<const float> logits, std::uint64_t position);

 private:
  void AdjustLogits(std::span<const float> logits);
  bool HasPenalties() const { return sampling_.frequency_penalty() != 0.0 || sampling_.presence_penalty() != 0.0; }
  std::uint32_t LargestLogit() const;
  std::uint32_t Draw(std::uint64_t position);
  void KeepTopK();
  void KeepTopP();
  void KeepMinP();
  void AddLogprobs(std::span<const float> logits, SampledToken* sampled) const;

  const v1::Sampling sampling_;
  std::vector<std::pair<std::uint32_t, double>> biases_;
  std::unordered_map<std::uint32_t, std::uint32_t> counts_;  // how often each token id was generated
  std::vector<double> adjusted_;                             // [vocab_size]: y of docs/wire.md, then z
  std::vector<std::uint32_t> kept_;                          // token ids of the remaining candidates
  std::vector<double> weights_;                              // w of docs/wire.md, by token id
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_SAMPLER_H_
