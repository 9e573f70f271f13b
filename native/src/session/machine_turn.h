// The compute turn of a machine: a System V semaphore set, shared by all workers of this user that have the same turn
// path.
//
// The set has four semaphores. Two are 0 (free) or 1 (taken): the turn, whose holder computes, and the place, whose
// holder gets the turn next. The third counts the workers that use the set; the last one to leave removes it. The
// fourth counts the workers that decode. To take a semaphore is one atomic operation (wait for zero, add one), so a new
// set needs no initial values. This relies on two guarantees of the kernel:
//   * Waiting operations complete in the order in which they came, and the process that frees a semaphore completes
//     the next process's operation itself. So a worker that has just computed cannot overtake one that waits (flock
//     promises no order).
//   * SEM_UNDO: if a process ends in any way, the turn or the place that it held is freed, and it no longer waits.
//
// Waiting costs no processor time. There is no shared memory and no file content, so nothing that an earlier boot or
// another user's program has left is ever parsed.
//
// The turn is for speed, never for correctness. If the turn's holder is stopped (SIGSTOP, debugger), the worker in the
// place computes without the turn, and the workers behind it queue for the place. If the worker in the place is
// stopped, the workers behind it wait for the turn itself. If a worker is stopped while it decodes, it still counts as
// decoding, so the other workers cut their prompts until it continues or ends. If the turn's holder hangs while it
// runs, the others wait until their deadlines. A set whose turn or place no living process can free is removed. Workers
// whose set was removed, for this reason or by another program (logind's RemoveIPC), join a new one. If the system
// gives no set any more, the worker computes without a turn.
//
// Only workers of the same IPC namespace share a turn: two containers do not. Source: semop(2), ipc/sem.c;
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
  // Joins the semaphore set that this absolute path names, or creates it. No file is made or read at the path. Its
  // folder must exist and be private to this user (kInvalidArgument). kNotReady if the system gives no semaphores. Uses
  // no file descriptor. If all its users are killed, the set stays until the next user, a logout or a restart.
  static Result<std::unique_ptr<MachineTurn>> Open(const std::string& turn_path);

  // Gives the turn back, and removes the set if no other worker uses it.
  ~MachineTurn() override;

  MachineTurn(const MachineTurn&) = delete;
  MachineTurn& operator=(const MachineTurn&) = delete;

  bool Begin(std::chrono::steady_clock::time_point deadline) override;
  bool has_waited() const override { return has_waited_; }
  void End() override;
  void TellDecoding(bool is_decoding) override;
  bool OthersDecode() const override;

  // The state of the semaphores, for tests and reports. Any thread may call Look; the state may change at once.
  struct View {
    pid_t holder = 0;          // 0: the turn is free
    bool place_taken = false;  // a worker is next in turn, or computes because the turn's holder is stopped
    int queued = 0;            // processes that wait for the place
  };
  View Look() const;

  // The kernel's id of the set; tests only.
  int set_id() const { return set_; }

  // How long the worker in the place waits for the turn before it checks if the turn's holder is stopped.
  static constexpr std::chrono::milliseconds kLookInterval{250};
  // How long, at least, a worker waits for the place before it checks if the worker in the place is stopped.
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
  std::chrono::nanoseconds longest_wait_{0};  // longest wait for the place so far
  bool has_waited_ = false;
  bool tells_decoding_ = false;
  bool is_given_up_ = false;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_MACHINE_TURN_H_
