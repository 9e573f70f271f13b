#include "engine/llama_devices.h"

#include <gtest/gtest.h>

namespace meshnet {
namespace {

TEST(LlamaDevicesTest, TheCpuIsThereWithItsMemory) {
  int processors = 0;
  for (const Device& device : ListLlamaDevices()) {
    if (device.type != "cpu") continue;
    ++processors;
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.memory_total_bytes, 0u);
    EXPECT_LE(device.memory_free_bytes, device.memory_total_bytes);
  }
  EXPECT_EQ(processors, 1);
}

}  // namespace
}  // namespace meshnet
