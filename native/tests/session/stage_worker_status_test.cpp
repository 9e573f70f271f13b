// What a worker says of the step that runs.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "session/forwarding_engine.h"
#include "session/machine_fixture.h"
#include "session/stage_worker.h"

namespace meshnet {
namespace {

constexpr std::chrono::seconds kAtMost{10};
constexpr std::chrono::milliseconds kIdle{400};

// A step begins when it likes and ends when the test says so.
class HeldEngine : public ForwardingEngine {
 public:
  HeldEngine() : ForwardingEngine({0, 8}) {}

  Status Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) override {
    std::unique_lock lock(mutex_);
    is_inside_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kAtMost, [this] { return is_released_; });
    is_inside_ = is_released_ = false;
    return engine_->Step(slices, results);
  }

  bool WaitUntilInside() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kAtMost, [this] { return is_inside_; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_inside_ = false;
  bool is_released_ = false;
};

class QuietSink : public MessageSink {
 public:
  void Enqueue(Outgoing&& /*outgoing*/) override {}
  void Flush() override {}
};

class StageWorkerStatusTest : public testing::Test {
 protected:
  StageWorkerStatusTest() {
    auto engine = std::make_unique<HeldEngine>();
    engine_ = engine.get();
    worker_ = std::make_unique<StageWorker>(std::move(engine), std::make_unique<NoTurn>(), &sink_);
  }

  v1::StatusReply Told() const {
    v1::StatusReply told;
    worker_->FillStatus(&told);
    return told;
  }

  QuietSink sink_;
  HeldEngine* engine_ = nullptr;
  std::unique_ptr<StageWorker> worker_;
};

TEST_F(StageWorkerStatusTest, AStepAfterALongPauseIsAsOldAsItIs) {
  ASSERT_TRUE(worker_->Open(SpecFor(worker_->facts(), 0, 1)).ok());
  std::this_thread::sleep_for(kIdle);
  EXPECT_GE(Told().last_step_age_ms(), static_cast<std::uint64_t>(kIdle.count()));
  std::vector<Message> messages;
  messages.emplace_back(Chunk(0, 0, 8, true));
  ASSERT_TRUE(worker_->Receive({}, std::move(messages)).ok());
  ASSERT_TRUE(engine_->WaitUntilInside());
  EXPECT_TRUE(Told().computing());
  EXPECT_LT(Told().last_step_age_ms(), static_cast<std::uint64_t>(kIdle.count()));
  std::this_thread::sleep_for(kIdle);
  EXPECT_GE(Told().last_step_age_ms(), static_cast<std::uint64_t>(kIdle.count()));
  engine_->Release();
}

TEST_F(StageWorkerStatusTest, AProbeAfterALongPauseIsAsOldAsItIs) {
  std::this_thread::sleep_for(kIdle);
  v1::ProbeRequest request;
  request.add_token_ids(1);
  auto probing = std::async(std::launch::async, [&] { return worker_->Probe(request, kAtMost); });
  ASSERT_TRUE(engine_->WaitUntilInside());
  EXPECT_TRUE(Told().computing());
  EXPECT_LT(Told().last_step_age_ms(), static_cast<std::uint64_t>(kIdle.count()));
  engine_->Release();
  EXPECT_TRUE(probing.get().ok());
  const TimePoint deadline = std::chrono::steady_clock::now() + kAtMost;
  while (Told().computing() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(Told().computing());
  EXPECT_LT(Told().last_step_age_ms(), static_cast<std::uint64_t>(kIdle.count()));
}

}  // namespace
}  // namespace meshnet
