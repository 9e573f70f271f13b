// The byte vectors that both languages decode: tests/vectors/*.json.
#ifndef MESHNET_TESTS_VECTORS_H_
#define MESHNET_TESTS_VECTORS_H_

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace meshnet {

inline nlohmann::json LoadVectors(const std::string& name) {
  const std::string path = std::string(MESHNET_SOURCE_ROOT) + "/tests/vectors/" + name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("no vectors at " + path);
  return nlohmann::json::parse(file);
}

inline std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

}  // namespace meshnet

#endif  // MESHNET_TESTS_VECTORS_H_
