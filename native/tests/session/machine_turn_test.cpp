// The machine's compute turn between processes: order, deaths, stops, deadlines, and what others may have left behind.
#include "session/machine_turn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/sem.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "session/child_processes.h"

namespace meshnet {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsOf(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

void BusyFor(std::chrono::microseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

// What the processes of a fairness test write down.
struct Record {
  std::atomic<int> ready = 0;
  std::atomic<int> turns = 0;
  std::atomic<int> computing = 0;
  std::atomic<int> overlaps = 0;
  std::atomic<Clock::rep> began_at = 0;
  std::atomic<Clock::rep> ended_at = 0;
  std::array<std::atomic<int>, 3> turns_of{};
};

class MachineTurnTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "turn-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override {
    // Children end without leaving: one that comes and goes removes the set.
    EXPECT_TRUE(MachineTurn::Open(Path()).ok());
    std::filesystem::remove_all(folder_);
  }

  std::string Path() const { return (folder_ / "compute.turn").string(); }
  std::unique_ptr<MachineTurn> Open() const { return std::move(MachineTurn::Open(Path()).value()); }

  // A child that takes the turn, and then waits to be killed or stopped.
  pid_t StartHolder(const MachineTurn& view) {
    const pid_t holder = children_.Start([this] {
      const auto turn = Open();
      if (turn->Begin(InMilliseconds(5000))) pause();
    });
    EXPECT_TRUE(Until([&] { return view.Look().holder == holder; }));
    return holder;
  }

  // A child that waits for the turn and gives it back. Comes back once it waits in the place, or behind it.
  pid_t StartWaiter(const MachineTurn& view, int queued_then) {
    const pid_t waiter = children_.Start([this] {
      const auto turn = Open();
      if (!turn->Begin(InMilliseconds(20'000))) _exit(1);
      turn->End();
    });
    EXPECT_TRUE(Until([&] { return view.Look().place_taken && view.Look().queued == queued_then; }));
    return waiter;
  }

  void ExpectFree(const MachineTurn& turn) {
    EXPECT_EQ(turn.Look().holder, 0);
    EXPECT_FALSE(turn.Look().place_taken);
    EXPECT_EQ(turn.Look().queued, 0);
  }

  // `processes` compute for `step` each, over and over, `turns` times in all, with the exclusion that `begin` and `end`
  // give. All start together.
  void Compete(int processes, int turns, std::chrono::microseconds step, Record* record,
               const std::function<std::pair<std::function<void()>, std::function<void()>>()>& open) {
    std::vector<pid_t> started;
    for (int process = 0; process < processes; ++process) {
      started.push_back(children_.Start([=] {
        const auto [begin, end] = open();
        ++record->ready;
        while (record->ready < processes) usleep(100);
        record->began_at = Clock::now().time_since_epoch().count();
        while (record->turns < turns) {
          begin();
          if (record->computing.fetch_add(1) > 0) ++record->overlaps;
          ++record->turns;
          ++record->turns_of[static_cast<std::size_t>(process)];
          BusyFor(step);
          --record->computing;
          end();
        }
        record->ended_at = Clock::now().time_since_epoch().count();
      }));
    }
    for (const pid_t process : started) EXPECT_TRUE(children_.Wait(process));
  }

  std::filesystem::path folder_;
  Children children_;
};

// The least and the most turns that a process got, in parts of an equal share.
std::pair<double, double> Shares(const Record& record, int processes) {
  const auto begin = record.turns_of.begin();
  const auto [least, most] = std::minmax_element(begin, begin + processes);
  const double share = static_cast<double>(record.turns) / processes;
  return {*least / share, *most / share};
}

// Wall time of a turn beyond the computing in it.
double HandOverMicroseconds(const Record& record, std::chrono::microseconds step) {
  return MicrosecondsOf(Clock::duration(record.ended_at - record.began_at)) / record.turns -
         static_cast<double>(step.count());
}

TEST_F(MachineTurnTest, SaysWhetherOthersDecodeAndForgetsTheDead) {
  const auto turn = Open();
  turn->TellDecoding(true);
  EXPECT_FALSE(turn->OthersDecode());
  const pid_t other = children_.Start([this] {
    const auto own = Open();
    own->TellDecoding(true);
    own->TellDecoding(true);
    pause();
  });
  EXPECT_TRUE(Until([&] { return turn->OthersDecode(); }));
  turn->TellDecoding(false);
  EXPECT_TRUE(turn->OthersDecode());
  kill(other, SIGKILL);
  EXPECT_TRUE(Until([&] { return !turn->OthersDecode(); }));
  turn->TellDecoding(true);
  {
    const auto third = Open();
    EXPECT_TRUE(third->OthersDecode());
    third->TellDecoding(true);
    EXPECT_TRUE(turn->OthersDecode());
  }
  EXPECT_FALSE(turn->OthersDecode());
}

class FairnessTest : public MachineTurnTest, public testing::WithParamInterface<int> {};

TEST_P(FairnessTest, ProcessesComputeOneAtATimeAndEquallyOften) {
  const int processes = GetParam();
  constexpr int kTurns = 600;
  constexpr std::chrono::microseconds kStep(500);
  Shared<Record> turn;
  Compete(processes, kTurns, kStep, turn.get(), [this] {
    const std::shared_ptr<MachineTurn> own = Open();
    return std::pair<std::function<void()>, std::function<void()>>(
        [own] {
          if (!own->Begin(InMilliseconds(20'000))) _exit(2);
        },
        [own] { own->End(); });
  });
  Shared<Record> none;
  Compete(processes, kTurns, kStep, none.get(),
          [] { return std::pair<std::function<void()>, std::function<void()>>([] {}, [] {}); });
  Shared<Record> lock;
  Compete(processes, kTurns, kStep, lock.get(), [this] {
    const int file = open((folder_ / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    return std::pair<std::function<void()>, std::function<void()>>([file] { flock(file, LOCK_EX); },
                                                                   [file] { flock(file, LOCK_UN); });
  });
  const auto [least, most] = Shares(*turn, processes);
  const auto [lock_least, lock_most] = Shares(*lock, processes);
  std::printf("%d processes, %d turns: shares %.2f to %.2f, overlaps %d, hand-over %.1f us; without: overlaps %d\n",
              processes, turn->turns.load(), least, most, turn->overlaps.load(), HandOverMicroseconds(*turn, kStep),
              none->overlaps.load());
  std::printf("flock: shares %.2f to %.2f, hand-over %.1f us\n", lock_least, lock_most,
              HandOverMicroseconds(*lock, kStep));
  EXPECT_GE(turn->turns, kTurns);
  EXPECT_EQ(turn->overlaps, 0);
  EXPECT_GT(none->overlaps, 0);  // control: the measurement does see overlaps
  EXPECT_GT(least, 0.8);
  EXPECT_LT(most, 1.25);
}

INSTANTIATE_TEST_SUITE_P(Processes, FairnessTest, testing::Values(2, 3));

TEST_F(MachineTurnTest, ProcessesThatAlwaysWantTheTurnHaveItInRotation) {
  constexpr int kProcesses = 3;
  constexpr int kTurns = 300;
  Shared<std::array<std::atomic<int>, kTurns>> order;
  Shared<std::atomic<int>> taken;
  std::vector<pid_t> started;
  for (int process = 0; process < kProcesses; ++process) {
    started.push_back(children_.Start([&, process] {
      const auto own = Open();
      for (;;) {
        if (!own->Begin(InMilliseconds(20'000))) _exit(1);
        const int number = (*taken)++;
        if (number >= kTurns) break;
        (*order)[static_cast<std::size_t>(number)] = process;
        // Whoever is slow to ask again would miss a turn: all others are waiting before it is given back.
        if (!Until([&] { return own->Look().place_taken && own->Look().queued == kProcesses - 2; })) _exit(2);
        own->End();
      }
      own->End();
    }));
  }
  for (const pid_t process : started) EXPECT_TRUE(children_.Wait(process));
  std::array<int, kProcesses> turns{};
  for (int number = 0; number < kTurns; ++number) {
    const int process = (*order)[static_cast<std::size_t>(number)];
    ++turns[static_cast<std::size_t>(process)];
    if (number >= kProcesses) {
      EXPECT_EQ(process, (*order)[static_cast<std::size_t>(number - kProcesses)]);
    }
  }
  for (const int count : turns) EXPECT_EQ(count, kTurns / kProcesses);
  std::printf("%d turns of %d processes: %d, %d and %d\n", kTurns, kProcesses, turns[0], turns[1], turns[2]);
}

TEST_F(MachineTurnTest, WaitersComeInTheOrderInWhichTheyCame) {
  const auto turn = Open();
  ASSERT_TRUE(turn->Begin(InMilliseconds(1000)));
  Shared<std::array<std::atomic<int>, 4>> order;
  Shared<std::atomic<int>> came;
  std::vector<pid_t> waiters;
  for (std::size_t number = 0; number < 4; ++number) {
    waiters.push_back(children_.Start([&, number] {
      const auto own = Open();
      if (!own->Begin(InMilliseconds(20'000))) _exit(1);
      (*order)[number] = (*came)++;
      own->End();
    }));
    ASSERT_TRUE(Until([&] { return turn->Look().place_taken && turn->Look().queued == static_cast<int>(number); }));
  }
  turn->End();
  for (const pid_t waiter : waiters) EXPECT_TRUE(children_.Wait(waiter));
  for (int number = 0; number < 4; ++number) {
    EXPECT_EQ((*order)[static_cast<std::size_t>(number)], number);
  }
  ExpectFree(*turn);
}

TEST_F(MachineTurnTest, AKilledHolderLetsGo) {
  const auto turn = Open();
  const pid_t holder = StartHolder(*turn);
  const pid_t waiter = StartWaiter(*turn, 0);
  const auto killed_at = Clock::now();
  children_.Kill(holder);
  EXPECT_TRUE(children_.Wait(waiter));
  EXPECT_TRUE(turn->Begin(InMilliseconds(1000)));
  std::printf("turn %.0f us after the kill\n", MicrosecondsOf(Clock::now() - killed_at));
  turn->End();
  ExpectFree(*turn);
}

TEST_F(MachineTurnTest, KilledWaitersBlockNobody) {
  const auto turn = Open();
  ASSERT_TRUE(turn->Begin(InMilliseconds(1000)));
  const pid_t next = StartWaiter(*turn, 0);
  const pid_t queued = StartWaiter(*turn, 1);
  const pid_t last = StartWaiter(*turn, 2);
  children_.Kill(queued);
  children_.Kill(next);
  EXPECT_TRUE(Until([&] { return turn->Look().place_taken && turn->Look().queued == 0; }));
  turn->End();
  EXPECT_TRUE(children_.Wait(last));
  ExpectFree(*turn);
}

TEST_F(MachineTurnTest, AStoppedHolderIsPassedByOneAfterTheOther) {
  const auto turn = Open();
  const pid_t holder = StartHolder(*turn);
  ASSERT_EQ(kill(holder, SIGSTOP), 0);
  ASSERT_EQ(waitpid(holder, nullptr, WUNTRACED), holder);
  const auto stopped_at = Clock::now();
  ASSERT_TRUE(turn->Begin(InMilliseconds(5000)));
  const auto first = Clock::now() - stopped_at;
  turn->End();
  const auto again_at = Clock::now();
  ASSERT_TRUE(turn->Begin(InMilliseconds(5000)));
  const auto again = Clock::now() - again_at;
  std::printf("passed after %.0f us, then after %.0f us\n", MicrosecondsOf(first), MicrosecondsOf(again));
  EXPECT_LT(first, std::chrono::seconds(2));
  EXPECT_LT(again, MachineTurn::kLookInterval);
  // Meanwhile the others still go one by one.
  const pid_t other = children_.Start([this] { _exit(Open()->Begin(InMilliseconds(50)) ? 1 : 0); });
  EXPECT_TRUE(children_.Wait(other));
  children_.Kill(holder);
  turn->End();
  ExpectFree(*turn);
  EXPECT_TRUE(turn->Begin(InMilliseconds(1000)));
}

TEST_F(MachineTurnTest, OneThatIsStoppedInThePlaceIsPassedToo) {
  const auto turn = Open();
  ASSERT_TRUE(turn->Begin(InMilliseconds(1000)));
  const pid_t next = StartWaiter(*turn, 0);
  ASSERT_EQ(kill(next, SIGSTOP), 0);
  ASSERT_EQ(waitpid(next, nullptr, WUNTRACED), next);
  const pid_t queued = StartWaiter(*turn, 1);
  turn->End();
  EXPECT_TRUE(children_.Wait(queued));
  // Whoever has passed it once does so at once.
  for (const auto within : {std::chrono::milliseconds(2000), MachineTurn::kQueueLookInterval}) {
    const auto asked_at = Clock::now();
    ASSERT_TRUE(turn->Begin(InMilliseconds(10'000)));
    const auto waited = Clock::now() - asked_at;
    std::printf("passed after %.0f us\n", MicrosecondsOf(waited));
    EXPECT_LT(waited, within);
    // Meanwhile the others still go one by one.
    const pid_t other = children_.Start([this] { _exit(Open()->Begin(InMilliseconds(50)) ? 1 : 0); });
    EXPECT_TRUE(children_.Wait(other));
    turn->End();
  }
  ASSERT_EQ(kill(next, SIGCONT), 0);
  EXPECT_TRUE(children_.Wait(next));
  ExpectFree(*turn);
}

TEST_F(MachineTurnTest, TheDeadlineIsKeptInThePlaceAndBehindIt) {
  const auto turn = Open();
  const pid_t holder = StartHolder(*turn);
  const auto start = Clock::now();
  EXPECT_FALSE(turn->Begin(InMilliseconds(60)));
  EXPECT_FALSE(turn->Begin(InMilliseconds(-1)));
  StartWaiter(*turn, 0);
  EXPECT_FALSE(turn->Begin(InMilliseconds(60)));
  const auto waited = Clock::now() - start;
  EXPECT_GE(waited, std::chrono::milliseconds(120));
  EXPECT_LT(waited, std::chrono::seconds(5));
  turn->End();  // nothing is held: nothing happens
  EXPECT_EQ(turn->Look().holder, holder);
  EXPECT_EQ(turn->Look().queued, 0);
}

void SetByHand(int set, int semaphore, int value) { semctl(set, semaphore, SETVAL, value); }

TEST_F(MachineTurnTest, GarbageThatNobodyCanFreeIsReplaced) {
  const auto turn = Open();
  const int set = turn->set_id();
  for (const int semaphore : {0, 1}) {
    const auto joined = Open();
    const int garbled = joined->set_id();
    EXPECT_TRUE(children_.Wait(children_.Start([=] { SetByHand(garbled, semaphore, 32767); })));
    const auto fresh = Open();
    EXPECT_NE(fresh->set_id(), garbled);
    EXPECT_TRUE(fresh->Begin(InMilliseconds(1000)));
  }
  EXPECT_NE(turn->set_id(), Open()->set_id());
  EXPECT_TRUE(turn->Begin(InMilliseconds(1000)));  // removed under it: it takes the new one
  EXPECT_NE(turn->set_id(), set);
  EXPECT_EQ(turn->set_id(), Open()->set_id());
  turn->End();
  const int current = turn->set_id();
  EXPECT_TRUE(children_.Wait(children_.Start([=] { SetByHand(current, 1, 5); })));
  EXPECT_TRUE(turn->Begin(InMilliseconds(5000)));  // garbled while it is in use
  EXPECT_NE(turn->set_id(), current);
}

TEST_F(MachineTurnTest, ASetRemovedWhileItIsHeldOrWaitedForIsReplaced) {
  const auto turn = Open();
  ASSERT_TRUE(turn->Begin(InMilliseconds(1000)));
  const int set = turn->set_id();
  const pid_t waiter = StartWaiter(*turn, 0);
  semctl(set, 0, IPC_RMID);
  EXPECT_TRUE(children_.Wait(waiter));
  turn->End();
  EXPECT_TRUE(turn->Begin(InMilliseconds(1000)));
  EXPECT_NE(turn->set_id(), set);
  turn->End();
  ExpectFree(*turn);
}

TEST_F(MachineTurnTest, ASetThatIsNotPrivateIsLeftAlone) {
  const auto first = Open();
  const int ours = first->set_id();
  semid_ds description{};
  union {
    int value;
    semid_ds* description;
  } argument{.description = &description};
  ASSERT_EQ(semctl(ours, 0, IPC_STAT, argument), 0);
  EXPECT_EQ(description.sem_perm.mode & 0777, 0600);
  EXPECT_EQ(description.sem_perm.uid, geteuid());
  description.sem_perm.mode = 0666;
  ASSERT_EQ(semctl(ours, 0, IPC_SET, argument), 0);
  const auto turn = Open();
  EXPECT_NE(turn->set_id(), ours);
  EXPECT_TRUE(turn->Begin(InMilliseconds(1000)));
  EXPECT_EQ(semctl(ours, 1, GETVAL), 0);
}

TEST_F(MachineTurnTest, TheLastUserThatLeavesRemovesTheSet) {
  auto first = Open();
  auto second = Open();
  const int set = first->set_id();
  EXPECT_EQ(second->set_id(), set);
  const pid_t third = StartHolder(*first);
  first.reset();
  second.reset();
  EXPECT_EQ(semctl(set, 2, GETVAL), 1);
  children_.Kill(third);
  EXPECT_EQ(semctl(set, 2, GETVAL), 0);  // a killed user no longer counts, and its set serves the next one
  auto next = Open();
  EXPECT_EQ(next->set_id(), set);
  next.reset();
  EXPECT_EQ(semctl(set, 2, GETVAL), -1);
}

TEST_F(MachineTurnTest, OnlyAPrivateFolderOfOnesOwnNamesATurn) {
  for (const std::string& path : {std::string(), std::string("compute.turn"), folder_.string() + "/",
                                  (folder_ / "missing" / "compute.turn").string()}) {
    EXPECT_EQ(MachineTurn::Open(path).status().code(), Code::kInvalidArgument) << path;
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(MachineTurn::Open(Path()).status().code(), Code::kInvalidArgument);
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  std::filesystem::create_directory_symlink(folder_, folder_ / "link");
  EXPECT_EQ(MachineTurn::Open((folder_ / "link" / "compute.turn").string()).value()->set_id(), Open()->set_id());
  EXPECT_FALSE(std::filesystem::exists(Path()));  // a name, not a file
}

TEST_F(MachineTurnTest, ATurnCostsMicroseconds) {
  const auto turn = Open();
  constexpr int kTurns = 20'000;
  const auto start = Clock::now();
  for (int i = 0; i < kTurns; ++i) {
    ASSERT_TRUE(turn->Begin(InMilliseconds(1000)));
    turn->End();
  }
  const double alone_us = MicrosecondsOf(Clock::now() - start) / kTurns;
  Shared<Record> record;
  const auto contended_at = Clock::now();
  Compete(2, kTurns, std::chrono::microseconds(0), record.get(), [this] {
    const std::shared_ptr<MachineTurn> own = Open();
    return std::pair<std::function<void()>, std::function<void()>>([own] { (void)own->Begin(InMilliseconds(20'000)); },
                                                                   [own] { own->End(); });
  });
  const double contended_us = MicrosecondsOf(Clock::now() - contended_at) / record->turns;
  std::printf("alone %.2f us a turn; two processes that only take turns %.2f us\n", alone_us, contended_us);
  EXPECT_LT(alone_us, 200.0);
}

}  // namespace
}  // namespace meshnet
