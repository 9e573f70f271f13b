// Threads are bound where they use all cores, and only there.
#include "engine/core_placement.h"

#include <gtest/gtest.h>

#include <thread>

namespace meshnet {
namespace {

using Cores = std::vector<int>;

TEST(CorePlacement, BindsThreadsThatUseEveryCore) {
  EXPECT_EQ(CoresToBind(2, {0, 1}), (Cores{0, 1}));
  EXPECT_EQ(CoresToBind(3, {1, 4, 9}), (Cores{1, 4, 9}));
}

TEST(CorePlacement, LeavesOthersToTheKernel) {
  EXPECT_EQ(CoresToBind(2, {0, 1, 2}), Cores());  // a core to spare
  EXPECT_EQ(CoresToBind(4, {0, 1}), Cores());     // more threads than cores
  EXPECT_EQ(CoresToBind(1, {3}), Cores());        // nothing to keep apart
  EXPECT_EQ(CoresToBind(2, {}), Cores());         // the system does not say
}

TEST(CorePlacement, GivesAThreadItsCoresBack) {
  std::thread([] {
    const Cores before = AllowedCores();
    ASSERT_FALSE(before.empty());
    {
      const KeepsCores keeps;
      ASSERT_TRUE(BindThisThread({before.back()}));
      EXPECT_EQ(AllowedCores(), Cores{before.back()});
    }
    EXPECT_EQ(AllowedCores(), before);
  }).join();
}

TEST(CorePlacement, RefusesCoresThatAreNotThere) {
  std::thread([] {
    const Cores before = AllowedCores();
    EXPECT_FALSE(BindThisThread({}));
    EXPECT_EQ(AllowedCores(), before);
  }).join();
}

}  // namespace
}  // namespace meshnet
