#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/philox.h"
#include "wire/protocol_limits.h"

namespace meshnet {
namespace {

bool InRange(double value, double low, double high) { return std::isfinite(value) && value >= low && value <= high; }

constexpr double kMaxTemperature = 100.0;
constexpr double kMaxPenalty = 100.0;
constexpr double kMaxBias = 1000.0;

// Natural logarithm of the sum of exp(x) over all logits, in double precision, added in the order of ids.
double LogSumExp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

// The id of the largest logit; of equal ones, the smallest id. The logits are finite. The loop works in lanes, so that
// the compiler vectorises it.
std::uint32_t LargestOf(std::span<const float> logits) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> largest;
  largest.fill(-std::numeric_limits<float>::infinity());
  std::size_t id = 0;
  for (; id + kLanes <= logits.size(); id += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logits[id + lane];
      largest[lane] = logit > largest[lane] ? logit : largest[lane];
    }
  }
  float found = *std::max_element(largest.begin(), largest.end());
  for (; id < logits.size(); ++id) found = std::max(found, logits[id]);
  return static_cast<std::uint32_t>(std::find(logits.begin(), logits.end(), found) - logits.begin());
}

}  // namespace

Status CheckSampling(const v1::Sampling& sampling, std::uint32_t vocab_size) {
  const bool in_range = InRange(sampling.temperature(), 0.0, kMaxTemperature) && InRange(sampling.top_p(), 0.0, 1.0) &&
                        InRange(sampling.min_p(), 0.0, 1.0) &&
                        InRange(sampling.presence_penalty(), -kMaxPenalty, kMaxPenalty) &&
                        InRange(sampling.frequency_penalty(), -kMaxPenalty, kMaxPenalty);
  if (!in_range || sampling.top_logprobs() > kMaxTopLogprobs) {
    return {Code::kMalformed, "a sampling parameter is out of range"};
  }
  for (const auto& [token_id, bias] : sampling.logit_bias()) {
    if (token_id >= vocab_size) return {Code::kBadTokenId, "a bias is for a token outside the vocabulary"};
    if (!InRange(bias, -kMaxBias, kMaxBias)) return {Code::kMalformed, "a bias is out of range"};
  }
  return Status::Ok();
}

Sampler::Sampler(const v1::Sampling& sampling, std::span<const std::uint32_t> committed) : sampling_(sampling) {
  for (const auto& [token_id, bias] : sampling.logit_bias()) biases_.emplace_back(token_id, bias);
  for (const std::uint32_t token_id : committed) ++counts_[token_id];
}

SampledToken Sampler::Sample(std::span<const float> logits, std::uint64_t position) {
  SampledToken sampled;
  if (sampling_.temperature() == 0.0 && biases_.empty() && !HasPenalties()) {
    sampled.token_id = LargestOf(logits);
  } else {
    AdjustLogits(logits);
    sampled.token_id = sampling_.temperature() == 0.0 ? LargestLogit() : Draw(position);
  }
  if (sampling_.logprobs()) AddLogprobs(logits, &sampled);
  ++counts_[sampled.token_id];
  return sampled;
}

void Sampler::AdjustLogits(std::span<const float> logits) {
  adjusted_.assign(logits.begin(), logits.end());
  for (const auto& [token_id, bias] : biases_) adjusted_[token_id] += bias;
  if (!HasPenalties()) return;
  for (const auto& [token_id, count] : counts_) {
    if (token_id >= adjusted_.size()) continue;
    adjusted_[token_id] = adjusted_[token_id] - sampling_.frequency_penalty() * count - sampling_.presence_penalty();
  }
}

std::uint32_t Sampler::LargestLogit() const {
  // max_element gives the first of equal logits, which has the smaller id.
  return static_cast<std::uint32_t>(std::max_element(adjusted_.begin(), adjusted_.end()) - adjusted_.begin());
}

std::uint32_t Sampler::Draw(std::uint64_t position) {
  for (double& value : adjusted_) value /= sampling_.temperature();
  const double largest = *std::max_element(adjusted_.begin(), adjusted_.end());
  weights_.resize(adjusted_.size());
  for (std::size_t id = 0; id < adjusted_.size(); ++id) weights_[id] = std::exp(adjusted_[id] - largest);
  kept_.resize(adjusted_.size());
  std::iota(kept_.begin(), kept_.end(), 0u);
  KeepTopK();
  KeepTopP();
  KeepMinP();
  std::sort(kept_.begin(), kept_.end());
  double total = 0.0;
  for (const std::uint32_t id : kept_) total += weights_[id];
  const double target = UniformDraw(sampling_.seed(), position, sampling_.choice()) * total;
  double running = 0.0;
  for (const std::uint32_t id : kept_) {
    running += weights_[id];
    if (running > target) return id;
  }
  return kept_.back();  // only if rounding made target as large as total: then the last candidate is right
}

void Sampler::KeepTopK() {
  if (sampling_.top_k() == 0 || sampling_.top_k() >= kept_.size()) return;
  const auto before = [this](std::uint32_t a, std::uint32_t b) {
    return adjusted_[a] != adjusted_[b] ? adjusted_[a] > adjusted_[b] : a < b;
  };
  std::nth_element(kept_.begin(), kept_.begin() + sampling_.top_k(), kept_.end(), before);
  kept_.resize(sampling_.top_k());
}

// Keeps the shortest prefix of the ordered candidates whose weights reach top_p of the total. The prefix is usually
// short, so candidates are sorted only as far as it reaches: each round doubles the part that is sorted.
void Sampler::KeepTopP() {
  if (sampling_.top_p() >= 1.0) return;
  const auto before = [this](std::uint32_t a, std::uint32_t b) {
    return adjusted_[a] != adjusted_[b] ? adjusted_[a] > adjusted_[b] : a < b;
  };
  double total = 0.0;
  for (const std::uint32_t id : kept_) total += weights_[id];
  const double wanted = sampling_.top_p() * total;
  double running = 0.0;
  std::size_t sorted = 0;
  for (std::size_t next = 64; sorted < kept_.size(); next *= 2) {
    const std::size_t end = std::min(next, kept_.size());
    const auto first = kept_.begin() + static_cast<std::ptrdiff_t>(sorted);
    std::partial_sort(first, kept_.begin() + static_cast<std::ptrdiff_t>(end), kept_.end(), before);
    for (std::size_t i = sorted; i < end; ++i) {
      running += weights_[kept_[i]];
      if (running >= wanted) {
        kept_.resize(i + 1);
        return;
      }
    }
    sorted = end;
  }
}

void Sampler::KeepMinP() {
  if (sampling_.min_p() <= 0.0) return;
  // The largest weight is exp(0) = 1.
  std::erase_if(kept_, [this](std::uint32_t id) { return weights_[id] < sampling_.min_p(); });
}

void Sampler::AddLogprobs(std::span<const float> logits, SampledToken* sampled) const {
  const double normaliser = LogSumExp(logits);
  const auto logprob = [&](std::uint32_t id) { return static_cast<float>(logits[id] - normaliser); };
  sampled->logprob = logprob(sampled->token_id);
  const std::size_t count = std::min<std::size_t>(sampling_.top_logprobs(), logits.size());
  if (count == 0) return;
  std::vector<std::uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
      [&](std::uint32_t a, std::uint32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  for (std::size_t i = 0; i < count; ++i) {
    v1::TokenLogprob& entry = sampled->top.emplace_back();
    entry.set_token_id(ids[i]);
    entry.set_logprob(logprob(ids[i]));
  }
}

}  // namespace meshnet
