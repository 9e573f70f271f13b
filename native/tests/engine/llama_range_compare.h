// Bitwise comparison of the logits of a chain with those of the whole model, with counts.
#ifndef MESHNET_TESTS_ENGINE_LLAMA_RANGE_COMPARE_H_
#define MESHNET_TESTS_ENGINE_LLAMA_RANGE_COMPARE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/llama_range_chain.h"

namespace meshnet::range {

struct Counts {
  std::int64_t rows = 0;
  std::int64_t mismatched_rows = 0;
  std::int64_t mismatched_bits = 0;
  std::int64_t same_argmax = 0;

  void Print(const std::string& what) const {
    std::printf("[ parity   ] %s: rows=%lld mismatched_rows=%lld mismatched_bits=%lld same_argmax=%lld\n", what.c_str(),
                static_cast<long long>(rows), static_cast<long long>(mismatched_rows),
                static_cast<long long>(mismatched_bits), static_cast<long long>(same_argmax));
  }
  void ExpectIdentical(std::int64_t at_least) const {
    EXPECT_GE(rows, at_least);
    EXPECT_EQ(mismatched_rows, 0);
    EXPECT_EQ(mismatched_bits, 0);
    EXPECT_EQ(same_argmax, rows);
  }
};

inline llama_token Argmax(std::span<const float> logits) {
  return static_cast<llama_token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

inline void CompareRow(std::span<const float> expected, std::span<const float> found, Counts& counts) {
  std::int64_t bits = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    bits += std::popcount(std::bit_cast<std::uint32_t>(expected[i]) ^ std::bit_cast<std::uint32_t>(found[i]));
  ++counts.rows;
  counts.mismatched_bits += bits;
  counts.mismatched_rows += bits != 0;
  counts.same_argmax += Argmax(expected) == Argmax(found);
}

// Runs the same rows on both and compares every row that wants logits. Returns the whole model's last argmax.
inline llama_token DecodeAndCompare(Chain& whole, Chain& chain, const Rows& rows, Counts& counts) {
  whole.Decode(rows);
  chain.Decode(rows);
  llama_token last = LLAMA_TOKEN_NULL;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].wants_logits) continue;
    const std::span<const float> expected = whole.Logits(static_cast<int>(i));
    CompareRow(expected, chain.Logits(static_cast<int>(i)), counts);
    last = Argmax(expected);
  }
  return last;
}

// Rows of one sequence from `first` on; `all_logits` false asks for the last row only.
inline Rows SequenceRows(std::span<const llama_token> tokens, llama_pos first, llama_seq_id sequence, bool all_logits) {
  Rows rows;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    rows.push_back({tokens[i], first + static_cast<llama_pos>(i), sequence, all_logits || i + 1 == tokens.size()});
  return rows;
}

// Prefill in chunks, then greedy steps that follow the whole model. Returns the number of positions used.
inline llama_pos GenerateAndCompare(Chain& whole, Chain& chain, std::span<const llama_token> prompt, int steps,
                                    std::size_t chunk_rows, Counts& counts) {
  llama_pos position = 0;
  llama_token next = LLAMA_TOKEN_NULL;
  while (static_cast<std::size_t>(position) < prompt.size()) {
    const auto rest = prompt.subspan(static_cast<std::size_t>(position));
    const auto chunk = rest.first(std::min(chunk_rows, rest.size()));
    next = DecodeAndCompare(whole, chain, SequenceRows(chunk, position, 0, true), counts);
    position += static_cast<llama_pos>(chunk.size());
  }
  for (int step = 0; step < steps; ++step, ++position)
    next = DecodeAndCompare(whole, chain, {{next, position, 0, true}}, counts);
  return position;
}

inline void Forget(Chain& chain) {
  for (std::size_t i = 0; i < chain.size(); ++i) llama_memory_clear(chain.stage(i).memory(), true);
}

inline std::vector<llama_token> Tokenise(const llama_model* model, const std::string& text) {
  const llama_vocab* vocab = llama_model_get_vocab(model);
  std::vector<llama_token> tokens(text.size() + 8);
  const int count = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                                   static_cast<int>(tokens.size()), true, true);
  tokens.resize(static_cast<std::size_t>(std::max(count, 0)));
  return tokens;
}

}  // namespace meshnet::range

#endif  // MESHNET_TESTS_ENGINE_LLAMA_RANGE_COMPARE_H_
