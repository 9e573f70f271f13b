// Philox4x32-10, a random number generator without a state: a number depends only on a counter and a key, so that every
// draw can be repeated.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11.
#ifndef MESHNET_ENGINE_PHILOX_H_
#define MESHNET_ENGINE_PHILOX_H_

#include <array>
#include <cstdint>

namespace meshnet {

inline std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// The uniform random number in [0, 1) with which the token at `position` is drawn in the answer with the number
// `choice`. Source: docs/wire.md, Sampling.
inline double UniformDraw(std::uint64_t seed, std::uint64_t position, std::uint32_t choice) {
  const std::array<std::uint32_t, 4> random =
      Philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), choice, 0},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::uint64_t bits = (std::uint64_t{random[0]} << 32 | random[1]) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace meshnet

#endif  // MESHNET_ENGINE_PHILOX_H_
