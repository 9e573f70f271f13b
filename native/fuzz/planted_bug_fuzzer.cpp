// Shows that fuzzing finds bugs: this reader of checked frames has a planted bug that no seed reaches. If fuzzing did
// not find it, the silence of wire_fuzzer.cpp would prove nothing.
#include <array>
#include <memory>

#include "wire/tensor_codec.h"
#include "wire_records.h"

namespace meshnet::fuzz {
namespace {

constexpr std::uint32_t kStages = 8;

// Counts the frames that are addressed to each stage. The bug: its comparison is off by one.
class FrameCounts {
 public:
  void Count(const v1::Frame& frame) {
    if (frame.to_stage() > kStages) return;
    ++counts_->data()[frame.to_stage()];
  }

 private:
  const std::unique_ptr<std::array<std::uint32_t, kStages>> counts_ =
      std::make_unique<std::array<std::uint32_t, kStages>>();
};

}  // namespace
}  // namespace meshnet::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  meshnet::fuzz::FrameCounts counts;
  meshnet::fuzz::WireRecords records(data, size);
  meshnet::fuzz::WireRecord record;
  while (records.Next(&record)) {
    const meshnet::Result<meshnet::v1::Frame> frame = meshnet::ParseFrame(record.bytes);
    if (frame.ok()) counts.Count(frame.value());
  }
  return 0;
}
