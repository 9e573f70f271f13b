// Varied prompts for parity: plain, chat markup, code, CJK, emoji, digits, one character, and one of 1,000+ tokens.
#ifndef MESHNET_TESTS_ENGINE_LLAMA_RANGE_PROMPTS_H_
#define MESHNET_TESTS_ENGINE_LLAMA_RANGE_PROMPTS_H_

#include <string>
#include <vector>

namespace meshnet::range {

inline std::vector<std::string> ShortPrompts() {
  return {
      "The capital of France is",
      "<|im_start|>user\nWrite two lines about the sea.<|im_end|>\n<|im_start|>assistant\n",
      "def fibonacci(n: int) -> int:\n    if n < 2:\n        return n\n    return",
      "今日はとても良い天気ですね。散歩に行きましょう。",
      "Which of these is a fruit? 🍎🚗🎹 Answer with one emoji: ",
      "1, 1, 2, 3, 5, 8, 13, 21, 34,",
      "A",
      "It was a bright cold day in April, and the clocks were striking thirteen. Nobody in the street seemed to mind, "
      "because the clocks of that town had never agreed on anything, and",
  };
}

inline std::string LongPrompt() {
  std::string text;
  for (int i = 1; i <= 110; ++i) {
    text += "Entry " + std::to_string(i) + ": the ship passed buoy " + std::to_string(i * 7 % 97) + " at dawn. ";
  }
  return text;
}

}  // namespace meshnet::range

#endif  // MESHNET_TESTS_ENGINE_LLAMA_RANGE_PROMPTS_H_
