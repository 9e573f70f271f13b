// Measures how long each codec takes to pack and to unpack one row.
//
//   pack_rows ELEMENTS REPEATS
//
// Prints one JSON line: for each codec, microseconds per row of ELEMENTS elements, the median of several rounds of
// REPEATS rows each. A row is packed as a step packs it, into a tensor with newly allocated data. Then it is checked
// and unpacked, as a row that arrives at a stage.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "wire/seam_codec.h"

namespace meshnet {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 31;

// Values of both signs and several magnitudes, as hidden rows have them.
std::vector<float> RowOf(std::size_t elements) {
  std::vector<float> row(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    row[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i)) * std::exp(std::sin(static_cast<double>(i))));
  }
  return row;
}

double MicrosecondsEach(int repeats, const std::function<void()>& run) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) run();
    rounds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / repeats);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

int Main(std::size_t elements, int repeats) {
  const std::vector<float> row = RowOf(elements);
  std::vector<float> unpacked(elements);
  nlohmann::json result;
  int refused = 0;
  float sum = 0.0f;  // printed, so that the compiler cannot leave the unpacking out
  for (const v1::Codec codec : {v1::CODEC_RAW, v1::CODEC_BF16, v1::CODEC_Q8_0}) {
    if (!CanPack(codec, static_cast<std::uint32_t>(elements))) continue;
    v1::Tensor packed;
    const double pack_us = MicrosecondsEach(repeats, [&] {
      packed = v1::Tensor();
      refused += PackRows(codec, "hidden", 1, row, &packed).ok() ? 0 : 1;
    });
    const double unpack_us = MicrosecondsEach(repeats, [&] {
      refused += IsFinite(packed) ? 0 : 1;
      UnpackRows(packed, unpacked);
      sum += unpacked[elements / 2];
    });
    result[v1::Codec_Name(codec)] = {
        {"bytes", packed.data().size()}, {"pack_us", pack_us}, {"unpack_us", unpack_us}, {"sum", sum}};
  }
  if (refused > 0) return 1;
  std::cout << result.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace meshnet

int main(int argc, char** argv) {
  const int elements = argc == 3 ? std::atoi(argv[1]) : 0;
  const int repeats = argc == 3 ? std::atoi(argv[2]) : 0;
  if (elements < 1 || repeats < 1) {
    std::cerr << "usage: pack_rows ELEMENTS REPEATS\n";
    return 2;
  }
  return meshnet::Main(static_cast<std::size_t>(elements), repeats);
}
