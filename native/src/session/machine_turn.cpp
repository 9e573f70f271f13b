#include "session/machine_turn.h"

#include <sys/sem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

#include "wire/digest.h"

namespace meshnet {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

constexpr unsigned short kPlace = 0;
constexpr unsigned short kTurn = 1;
constexpr unsigned short kUsers = 2;
constexpr unsigned short kDecoding = 3;
constexpr int kSemaphores = 4;
constexpr int kMode = 0600;
// Number of keys that are tried, since the first ones may belong to sets of other users or programs.
constexpr int kKeys = 16;
// Number of tries to join a set, since it may be removed after it was found.
constexpr int kJoins = 100;

TimePoint Now() { return std::chrono::steady_clock::now(); }

// The type of semctl's fourth argument, which programs have to define. Source: semctl(2).
union SemaphoreArgument {
  int value;
  semid_ds* description;
  unsigned short* values;
};

std::string SystemError(int error) { return std::strerror(error); }

// Name from which the key of the semaphore set is derived: the user's id and the resolved path, so that all spellings
// of one path give the same name. Fails unless the path's folder belongs to this user and is private.
Result<std::string> NameOf(const std::string& turn_path) {
  const std::size_t slash = turn_path.rfind('/');
  if (turn_path.empty() || turn_path.front() != '/' || slash + 1 == turn_path.size()) {
    return Status(Code::kInvalidArgument, "the turn path is not an absolute path of a file");
  }
  const std::string folder = turn_path.substr(0, slash + 1);
  const std::unique_ptr<char, decltype(&std::free)> resolved(realpath(folder.c_str(), nullptr), std::free);
  struct stat facts{};
  if (resolved == nullptr || stat(resolved.get(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    return Status(Code::kInvalidArgument, "the folder of the turn path does not exist");
  }
  if (facts.st_uid != geteuid() || (facts.st_mode & 077) != 0) {
    return Status(Code::kInvalidArgument, "the folder of the turn path is not this user's own and private");
  }
  return std::to_string(geteuid()) + ':' + resolved.get() + turn_path.substr(slash);
}

key_t KeyOf(const std::string& name, int attempt) {
  const std::string digest = Sha256("meshnet compute turn\n" + std::to_string(attempt) + '\n' + name);
  key_t key = 0;
  std::memcpy(&key, digest.data(), sizeof(key));
  return key == IPC_PRIVATE ? 1 : key;
}

// Whether a set that has our key is one of ours: it has the right owner, mode and shape.
bool IsOurs(int set) {
  semid_ds description{};
  SemaphoreArgument argument{};
  argument.description = &description;
  if (semctl(set, 0, IPC_STAT, argument) != 0) return false;
  const ipc_perm& rights = description.sem_perm;
  return rights.uid == geteuid() && rights.cuid == geteuid() && (rights.mode & 0777) == kMode &&
         description.sem_nsems == kSemaphores;
}

// Whether a semaphore is taken and the process that could free it is dead. The kernel undoes a process's operations
// before the process disappears, so this happens only if values were changed by hand. GETPID gives 0 for a process of
// another namespace.
bool IsAbandoned(int set, int semaphore) {
  const pid_t last = semctl(set, semaphore, GETPID);
  if (last <= 0 || kill(last, 0) == 0 || errno != ESRCH) return false;
  return semctl(set, semaphore, GETVAL) != 0 && semctl(set, semaphore, GETPID) == last;
}

// Removes a set. A set's id holds a sequence number, so the id of a set that is gone never removes the set that
// replaced it.
void Remove(int set) { semctl(set, 0, IPC_RMID); }

sembuf WaitForZero(unsigned short semaphore, short flags = 0) { return {semaphore, 0, flags}; }
sembuf Add(unsigned short semaphore) { return {semaphore, 1, SEM_UNDO}; }
// Never waits: if the value is 0, the set was reset and there is nothing to give back.
sembuf Free(unsigned short semaphore) { return {semaphore, -1, SEM_UNDO | IPC_NOWAIT}; }

Result<int> FindSet(const std::string& name) {
  for (int attempt = 0; attempt < kKeys; ++attempt) {
    int set = semget(KeyOf(name, attempt), kSemaphores, IPC_CREAT | kMode);
    if (set >= 0 && IsOurs(set) && (IsAbandoned(set, kPlace) || IsAbandoned(set, kTurn))) {
      Remove(set);
      set = semget(KeyOf(name, attempt), kSemaphores, IPC_CREAT | kMode);
    }
    if (set >= 0 && IsOurs(set)) return set;
    // EACCES and EINVAL: another user's set, or one of another size, has this key. Try the next key.
    if (set < 0 && errno != EACCES && errno != EINVAL) {
      return Status(Code::kNotReady, "no semaphores could be made for the compute turn: " + SystemError(errno));
    }
  }
  return Status(Code::kNotReady, "no key for the compute turn is free");
}

// Finds or creates the set of semaphores and counts this worker among its users.
Result<int> JoinSet(const std::string& name) {
  for (int attempt = 0; attempt < kJoins; ++attempt) {
    Result<int> set = FindSet(name);
    if (!set.ok()) return set;
    sembuf join = Add(kUsers);
    if (semop(set.value(), &join, 1) == 0) return set;
    // EIDRM and EINVAL: the set's last user has just removed it, so try again.
    if (errno != EIDRM && errno != EINVAL) break;
  }
  return Status(Code::kNotReady, "the compute turn cannot be joined: " + SystemError(errno));
}

// The state letter of a process, or '?'. It follows the last parenthesis of the line, since the process's name may hold
// parentheses. Source: proc_pid_stat(5).
char StateOf(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(stat, line);
  const std::size_t end = line.rfind(") ");
  return end == std::string::npos || end + 2 >= line.size() ? '?' : line[end + 2];
}

}  // namespace

Result<std::unique_ptr<MachineTurn>> MachineTurn::Open(const std::string& turn_path) {
  Result<std::string> name = NameOf(turn_path);
  if (!name.ok()) return name.status();
  const Result<int> set = JoinSet(name.value());
  if (!set.ok()) return set.status();
  return std::unique_ptr<MachineTurn>(new MachineTurn(std::move(name.value()), set.value()));
}

MachineTurn::~MachineTurn() {
  End();
  TellDecoding(false);
  sembuf leave = Free(kUsers);
  if (semop(set_, &leave, 1) == 0 && semctl(set_, kUsers, GETVAL) == 0) Remove(set_);
}

bool MachineTurn::Begin(TimePoint deadline) {
  has_waited_ = false;
  while (!is_given_up_) {
    const Outcome outcome = Take(deadline);
    if (outcome == Outcome::kDone) return true;
    if (outcome == Outcome::kLate) return false;
    if (outcome == Outcome::kRefused) {
      GoOnWithout(SystemError(errno));
    } else if (Now() >= deadline) {
      return false;
    } else {
      const Result<int> set = JoinSet(name_);
      if (set.ok()) set_ = set.value();
      tells_decoding_ = false;  // a new set does not count this worker as decoding
      if (!set.ok()) GoOnWithout(set.status().message());
    }
  }
  return true;
}

void MachineTurn::End() {
  const Held held = std::exchange(held_, Held::kNothing);
  if (held == Held::kNothing) return;
  sembuf give_back = Free(held == Held::kTurn ? kTurn : kPlace);
  // Fails only if the set is gone or was reset; then this worker holds nothing in it.
  semop(set_, &give_back, 1);
}

void MachineTurn::TellDecoding(bool is_decoding) {
  if (is_decoding == tells_decoding_ || is_given_up_) return;
  sembuf change = is_decoding ? Add(kDecoding) : Free(kDecoding);
  // If the set is gone, the next Begin joins another one and clears `tells_decoding_`.
  if (semop(set_, &change, 1) == 0) tells_decoding_ = is_decoding;
}

bool MachineTurn::OthersDecode() const {
  return !is_given_up_ && semctl(set_, kDecoding, GETVAL) > (tells_decoding_ ? 1 : 0);
}

MachineTurn::Outcome MachineTurn::Take(TimePoint deadline) {
  // If the place and the turn are free, one call takes the turn.
  sembuf at_once[] = {WaitForZero(kPlace, IPC_NOWAIT), WaitForZero(kTurn, IPC_NOWAIT), Add(kTurn)};
  Outcome outcome = Operate(at_once, std::size(at_once), std::chrono::nanoseconds(0));
  if (outcome == Outcome::kDone) held_ = Held::kTurn;
  if (outcome != Outcome::kLate) return outcome;
  has_waited_ = true;
  outcome = TakePlace(deadline);
  if (outcome != Outcome::kDone) return outcome;
  outcome = MoveUp(deadline);
  // Frees the place. If the set is gone, this worker holds nothing, and End only clears `held_`.
  if (outcome != Outcome::kDone) End();
  return outcome;
}

// Takes the place. If the worker in the place is stopped, returns kDone without the place. To check for this, the
// worker leaves the queue and joins it again at its end; so it checks only after twice the longest wait so far, and
// then ever more rarely.
MachineTurn::Outcome MachineTurn::TakePlace(TimePoint deadline) {
  const TimePoint since = Now();
  std::chrono::nanoseconds interval = std::max<std::chrono::nanoseconds>(kQueueLookInterval, 2 * longest_wait_);
  passed_stopped_next_ = passed_stopped_next_ && IsStopped(kPlace);
  while (!passed_stopped_next_) {
    sembuf queue[] = {WaitForZero(kPlace), Add(kPlace)};
    const Outcome outcome =
        Operate(queue, std::size(queue), std::min<std::chrono::nanoseconds>(deadline - Now(), interval));
    if (outcome == Outcome::kDone) {
      held_ = Held::kPlace;
      longest_wait_ = std::max<std::chrono::nanoseconds>(longest_wait_, Now() - since);
    }
    if (outcome != Outcome::kLate || Now() >= deadline) return outcome;
    if (IsAbandoned(set_, kPlace)) {
      Remove(set_);
      return Outcome::kGone;
    }
    passed_stopped_next_ = IsStopped(kPlace);
    interval *= 2;
  }
  return Outcome::kDone;
}

// Waits for the turn, takes it and frees the place. If the turn's holder is stopped, returns kDone without the turn.
// Few workers wait for the turn itself, so leaving this queue for a check loses no turn.
MachineTurn::Outcome MachineTurn::MoveUp(TimePoint deadline) {
  if (passed_stopped_holder_) passed_stopped_holder_ = IsStopped(kTurn);
  while (!passed_stopped_holder_) {
    sembuf move_up[] = {WaitForZero(kTurn), Add(kTurn), {kPlace, -1, SEM_UNDO}};
    const std::size_t count = std::size(move_up) - (held_ == Held::kPlace ? 0 : 1);
    const auto wait = std::min<std::chrono::nanoseconds>(deadline - Now(), kLookInterval);
    const Outcome outcome = Operate(move_up, count, wait);
    if (outcome == Outcome::kDone) held_ = Held::kTurn;
    if (outcome != Outcome::kLate) return outcome;
    if (IsAbandoned(set_, kTurn)) {
      Remove(set_);
      return Outcome::kGone;
    }
    if (Now() >= deadline) return Outcome::kLate;
    passed_stopped_holder_ = IsStopped(kTurn);
  }
  return Outcome::kDone;
}

// Does all operations at once, or none (kLate) if that is not possible within `wait_at_most`. If `wait_at_most` is not
// positive, does not wait.
MachineTurn::Outcome MachineTurn::Operate(sembuf* operations, std::size_t count,
                                          std::chrono::nanoseconds wait_at_most) const {
  const TimePoint until = Now() + wait_at_most;
  int result = 0;
  do {
    const auto left = std::max<std::chrono::nanoseconds>(until - Now(), std::chrono::nanoseconds(0));
    const timespec wait{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    result = semtimedop(set_, operations, count, &wait);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return Outcome::kDone;
  if (errno == EAGAIN) return Outcome::kLate;
  return errno == EIDRM || errno == EINVAL ? Outcome::kGone : Outcome::kRefused;
}

// Whether the semaphore is taken by a process that a signal or a debugger has stopped.
bool MachineTurn::IsStopped(unsigned short semaphore) const {
  const pid_t last = semctl(set_, semaphore, GETPID);
  if (semctl(set_, semaphore, GETVAL) <= 0 || last <= 0 || last == getpid()) return false;
  const char state = StateOf(last);
  return state == 'T' || state == 't';
}

MachineTurn::View MachineTurn::Look() const {
  View view;
  view.place_taken = semctl(set_, kPlace, GETVAL) > 0;
  view.queued = std::max(semctl(set_, kPlace, GETZCNT), 0);
  const pid_t last = semctl(set_, kTurn, GETPID);
  if (semctl(set_, kTurn, GETVAL) > 0) view.holder = last;
  return view;
}

void MachineTurn::GoOnWithout(const std::string& why) {
  is_given_up_ = true;
  std::cerr << "meshnet-worker: computing without the machine's turn from now on: " << why << std::endl;
}

}  // namespace meshnet
