// The compute turn of a machine: a System V semaphore set that every worker of this user with the same turn path finds.
//
// Two semaphores that are 0 (free) or 1 (taken): the turn, and the place of the one that is next; a third counts users,
// and the last one to leave removes the set; a fourth counts the users that decode. Taking is one atomic operation
// (wait for zero, add one), so a new set needs no initial values and there is no moment in which it is half made. What
// the kernel guarantees, and this relies on:
//   * waiting operations complete in the order in which they came, and the one that releases completes the next one's
//     operation itself: whoever has just computed cannot come first again (flock promises no order);
//   * SEM_UNDO: what a process holds, turn or place, is given back when it ends in any way; a waiter that ends is no
//     longer waiting. Waiting costs no processor time.
// No shared memory, no file content: nothing that an earlier boot or a program of another user could have left there is
// ever parsed.
//
// The turn is for speed, never for correctness. So a holder that is stopped (SIGSTOP, debugger) is passed by: the next
// one keeps its place and computes, and those behind it queue for that place. One that is stopped in the place waits
// for nothing any more and is passed too: those behind it wait for the turn itself. (One that is stopped while somebody
// decodes there is still counted as decoding: the others' prompts stay cut until it goes on or ends.) A holder that
// hangs while it runs is waited for until the deadline. A set that no living process can free is removed; its users
// take a new one, as they do when it is removed under them (logind's RemoveIPC). Where the system gives no set any
// more, there is no turn.
//
// Reaches as far as an IPC namespace: two containers do not share it. Source: semop(2), ipc/sem.c;
// docs/adr/0005-compute-turn.md.
#ifndef MESHNET_SESSION_MACHINE_TURN_H_
#define MESHNET_SESSION_MACHINE_TURN_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "session/compute_turn.h"
#include "wire/status.h"

struct sembuf;

namespace meshnet {

class MachineTurn : public ComputeTurn {
 public:
  // Joins the turn of that path, or begins it. The path is a name: its folder must exist, be this user's own and
  // private (kInvalidArgument), a file there is neither made nor read. kNotReady where the system gives no semaphores.
  // Costs no descriptor. Users that are all killed leave the set behind, for the next one, a logout or a restart.
  static Result<std::unique_ptr<MachineTurn>> Open(const std::string& turn_path);

  // Gives back what is held, and removes the set where nobody else uses it.
  ~MachineTurn() override;

  MachineTurn(const MachineTurn&) = delete;
  MachineTurn& operator=(const MachineTurn&) = delete;

  bool Begin(std::chrono::steady_clock::time_point deadline) override;
  bool has_waited() const override { return has_waited_; }
  void End() override;
  void TellDecoding(bool is_decoding) override;
  bool OthersDecode() const override;

  // What can be seen from outside, for tests and reports. Any thread; stale at once.
  struct View {
    pid_t holder = 0;          // 0: the turn is free
    bool place_taken = false;  // somebody is next, or computes in place of a stopped holder
    int queued = 0;            // processes behind the place
  };
  View Look() const;

  // The kernel's id of the set; tests only.
  int set_id() const { return set_; }

  // How long a next one waits before it looks what the holder is doing.
  static constexpr std::chrono::milliseconds kLookInterval{250};
  // How long one behind the place waits before it looks for the first time what the next one is doing.
  static constexpr std::chrono::milliseconds kQueueLookInterval{500};

 private:
  enum class Outcome { kDone, kLate, kGone, kRefused };
  enum class Held { kNothing, kPlace, kTurn };

  MachineTurn(std::string name, int set) : name_(std::move(name)), set_(set) {}

  Outcome Take(std::chrono::steady_clock::time_point deadline);
  Outcome TakePlace(std::chrono::steady_clock::time_point deadline);
  Outcome MoveUp(std::chrono::steady_clock::time_point deadline);
  Outcome Operate(sembuf* operations, std::size_t count, std::chrono::nanoseconds wait_at_most) const;
  bool IsStopped(unsigned short semaphore) const;
  void GoOnWithout(const std::string& why);

  const std::string name_;
  int set_;
  Held held_ = Held::kNothing;
  bool passed_stopped_holder_ = false;
  bool passed_stopped_next_ = false;
  std::chrono::nanoseconds longest_wait_{0};  // for the place
  bool has_waited_ = false;
  bool tells_decoding_ = false;
  bool is_given_up_ = false;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_MACHINE_TURN_H_
