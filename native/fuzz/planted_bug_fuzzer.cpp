// The control of wire_fuzzer.cpp: a reader of checked frames with a mistake in it, which no seed reaches. A fuzzer that
// does not find it finds nothing.
#include <array>
#include <memory>

#include "wire/tensor_codec.h"
#include "wire_records.h"

namespace meshnet::fuzz {
namespace {

constexpr std::uint32_t kStages = 8;

// Counts the frames that each stage is sent. The comparison is off by one.
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
