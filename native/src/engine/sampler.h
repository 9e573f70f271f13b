// Draws the next token from raw logits, replayable from (seed, position, choice). Source: docs/wire.md, Sampling.
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

// Whether the settings can be used with a vocabulary of that size: finite, in range. kMalformed, kBadTokenId.
Status CheckSampling(const v1::Sampling& sampling, std::uint32_t vocab_size);

struct SampledToken {
  std::uint32_t token_id = 0;
  std::optional<float> logprob;       // if the settings ask for logprobs
  std::vector<v1::TokenLogprob> top;  // by logprob descending, then id
};

// One generation's sampler. Not thread-safe; owned by the compute thread. Keeps its buffers between draws.
class Sampler {
 public:
  // `sampling` was checked. `committed`: tokens already generated in an earlier epoch; they count for the penalties.
  Sampler(const v1::Sampling& sampling, std::span<const std::uint32_t> committed);

  // Draws the token of `position` and counts it. logits: [vocab_size] f32, finite.
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
  std::unordered_map<std::uint32_t, std::uint32_t> counts_;  // generated tokens
  std::vector<double> adjusted_;                             // y, then z: [vocab_size]
  std::vector<std::uint32_t> kept_;                          // candidate ids
  std::vector<double> weights_;                              // w by id
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_SAMPLER_H_
