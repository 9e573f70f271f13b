// What a worker does while the machine's compute turn does not come.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "session/machine_fixture.h"
#include "session/stage_worker.h"

namespace meshnet {
namespace {

// A turn that comes when the test says so.
class HeldTurn : public ComputeTurn {
 public:
  bool Begin(TimePoint deadline) override {
    std::unique_lock lock(mutex_);
    is_awaited_ = true;
    changed_.notify_all();
    return changed_.wait_until(lock, deadline, [this] { return is_given_; });
  }
  bool has_waited() const override { return false; }
  void End() override {}
  void TellDecoding(bool is_decoding) override {
    const std::lock_guard lock(mutex_);
    tells_decoding_ = is_decoding;
    changed_.notify_all();
  }
  bool OthersDecode() const override { return false; }

  bool WaitUntilTold(bool is_decoding) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return tells_decoding_ == is_decoding; });
  }
  void Give() {
    const std::lock_guard lock(mutex_);
    is_given_ = true;
    changed_.notify_all();
  }
  bool WaitUntilAwaited() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return is_awaited_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_given_ = false;
  bool is_awaited_ = false;
  bool tells_decoding_ = false;
};

class KeepingSink : public MessageSink {
 public:
  void Enqueue(Outgoing&& outgoing) override {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(outgoing.message));
  }
  void Flush() override { arrived_.notify_all(); }

  // The first failure or token; empty where none comes in ten seconds.
  std::string FirstOutcome() {
    std::unique_lock lock(mutex_);
    std::string outcome;
    arrived_.wait_for(lock, std::chrono::seconds(10), [&] {
      for (const Message& message : messages_) {
        const v1::EdgeMessage* edge = std::get_if<v1::EdgeMessage>(&message);
        if (edge != nullptr && edge->has_failure()) outcome = edge->failure().code();
        if (edge != nullptr && edge->has_token() && outcome.empty()) outcome = "token";
      }
      return !outcome.empty();
    });
    return outcome;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Message> messages_;
};

class StageWorkerTurnTest : public testing::Test {
 protected:
  StageWorkerTurnTest() {
    auto turn = std::make_unique<HeldTurn>();
    turn_ = turn.get();
    worker_ = std::make_unique<StageWorker>(LoadFake({0, 8}), std::move(turn), &sink_);
  }
  ~StageWorkerTurnTest() override {
    if (worker_ != nullptr) turn_->Give();
  }

  void Begin(std::uint32_t step_deadline_ms) {
    v1::SessionSpec spec = SpecFor(worker_->facts(), 0, 1);
    spec.set_step_deadline_ms(step_deadline_ms);
    ASSERT_TRUE(worker_->Open(spec).ok());
    std::vector<Message> messages;
    messages.emplace_back(Chunk(0, 0, 8, true));
    ASSERT_TRUE(worker_->Receive({}, std::move(messages)).ok());
    ASSERT_TRUE(turn_->WaitUntilAwaited());
  }

  KeepingSink sink_;
  HeldTurn* turn_ = nullptr;
  std::unique_ptr<StageWorker> worker_;
};

TEST_F(StageWorkerTurnTest, ASessionFailsAtItsStepDeadlineAndIsReleasedOnceTheTurnComes) {
  Begin(100);
  EXPECT_EQ(sink_.FirstOutcome(), "step_timeout");
  v1::StatusReply waiting;
  worker_->FillStatus(&waiting);
  EXPECT_EQ(waiting.sessions_size(), 0);
  EXPECT_FALSE(waiting.computing());
  EXPECT_EQ(waiting.steps(), 0u);
  turn_->Give();
  worker_.reset();  // ends at once
}

TEST_F(StageWorkerTurnTest, ASessionGoesOnWhereTheTurnComesInTime) {
  Begin(60'000);
  turn_->Give();
  EXPECT_EQ(sink_.FirstOutcome(), "token");
}

TEST_F(StageWorkerTurnTest, OthersHearWhetherSomebodyDecodesHere) {
  Begin(60'000);
  turn_->Give();
  EXPECT_TRUE(turn_->WaitUntilTold(true));
  // Its client takes nothing: once the token window is full no step comes any more.
  EXPECT_TRUE(turn_->WaitUntilTold(false));
}

TEST_F(StageWorkerTurnTest, AProbeSaysThatTheTurnDidNotComeAndUnloadingEndsIt) {
  const Result<v1::ProbeReply> reply = worker_->Probe({}, std::chrono::milliseconds(50));
  EXPECT_EQ(reply.status().code(), Code::kStepTimeout);
  turn_->Give();
  v1::ProbeRequest request;
  request.add_token_ids(65);
  EXPECT_TRUE(worker_->Probe(request, std::chrono::seconds(10)).ok());
}

}  // namespace
}  // namespace meshnet
