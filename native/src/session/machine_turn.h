// The compute turn of a machine: a System V semaphore set, shared by all workers of this user that have the same turn
// path.
//
// The set has four semaphores. Two are 0 (free) or 1 (taken): the turn, and the place of the next worker. The third
// counts users; the last one to leave removes the set. The fourth counts the users that decode. To take a semaphore is
// one atomic operation (wait for zero, add one), so a new set needs no initial values and is never half made. This
// relies on two guarantees of the kernel:
//   * Waiting operations complete in the order in which they came, and the process that releases completes the next
//     one's operation itself. So a worker that has just computed cannot come first again (flock promises no order).
//   * SEM_UNDO: if a process ends in any way, the turn and the place it held are given back, and it no longer waits.
//     Waiting costs no processor time.
//
// There is no shared memory and no file content, so nothing left by an earlier boot or by another user's program is
// ever parsed.
//
// The turn is for speed, never for correctness. If a holder is stopped (SIGSTOP, debugger), the next worker keeps its
// place and computes, and the workers behind it queue for that place. If a worker is stopped in the place, the workers
// behind it wait for the turn itself. (If a worker is stopped while it decodes, it still counts as decoding: the
// others' prompts stay cut until it goes on or ends.) If a holder hangs while it runs, the others wait until the
// deadline. A set that no living process can free is removed; its users take a new one, as they do if it is removed by
// others (logind's RemoveIPC). If the system gives no set any more, the worker computes without a turn.
//
// The turn reaches as far as an IPC namespace: two containers do not share it. Source: semop(2), ipc/sem.c;
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
  // Joins the turn of this path, or creates it. The path is only a name: its folder must exist and be private to this
  // user (kInvalidArgument), but no file is made or read there. kNotReady if the system gives no semaphores. Uses no
  // file descriptor. If all users are killed, the set stays for the next one, until a logout or a restart.
  static Result<std::unique_ptr<MachineTurn>> Open(const std::string& turn_path);

  // Gives back the turn, and removes the set if no other worker uses it.
  ~MachineTurn() override;

  MachineTurn(const MachineTurn&) = delete;
  MachineTurn& operator=(const MachineTurn&) = delete;

  bool Begin(std::chrono::steady_clock::time_point deadline) override;
  bool has_waited() const override { return has_waited_; }
  void End() override;
  void TellDecoding(bool is_decoding) override;
  bool OthersDecode() const override;

  // The turn as other processes see it, for tests and reports. Any thread; stale at once.
  struct View {
    pid_t holder = 0;          // 0: the turn is free
    bool place_taken = false;  // a worker is next, or computes in place of a stopped holder
    int queued = 0;            // processes behind the place
  };
  View Look() const;

  // The kernel's id of the set; tests only.
  int set_id() const { return set_; }

  // How long the worker in the place waits before it checks the state of the holder.
  static constexpr std::chrono::milliseconds kLookInterval{250};
  // How long a worker behind the place waits before it first checks the state of the worker in the place.
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
