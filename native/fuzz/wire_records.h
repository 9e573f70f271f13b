// Splits a fuzzer's input into messages. The input is a list of records: one byte whose lowest three bits are the flags
// of WireRecord, two bytes of length (little-endian), and the message of that length. If the input ends inside a
// message, the record has the bytes that are there. `native/tools/fuzz.py` writes seeds in this layout.
#ifndef MESHNET_FUZZ_WIRE_RECORDS_H_
#define MESHNET_FUZZ_WIRE_RECORDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meshnet::fuzz {

struct WireRecord {
  bool is_edge_message = false;  // otherwise a frame
  bool to_tail = false;          // otherwise to the head
  bool from_bridge = false;      // otherwise from the peer that the session names
  std::string_view bytes;
};

class WireRecords {
 public:
  WireRecords(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // Reads the next record. Returns false if no whole record header is left.
  bool Next(WireRecord* record) {
    constexpr std::size_t kHeaderBytes = 3;
    if (rest_.size() < kHeaderBytes) return false;
    const auto kind = static_cast<std::uint8_t>(rest_[0]);
    const std::size_t length = static_cast<std::uint8_t>(rest_[1]) | std::size_t{static_cast<std::uint8_t>(rest_[2])}
                                                                         << 8;
    record->is_edge_message = (kind & 1) != 0;
    record->to_tail = (kind & 2) != 0;
    record->from_bridge = (kind & 4) != 0;
    rest_.remove_prefix(kHeaderBytes);
    record->bytes = rest_.substr(0, length);
    rest_.remove_prefix(std::min(length, rest_.size()));
    return true;
  }

 private:
  std::string_view rest_;
};

}  // namespace meshnet::fuzz

#endif  // MESHNET_FUZZ_WIRE_RECORDS_H_
