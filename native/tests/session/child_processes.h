// Processes of a test, forked before it starts threads of its own. Killed and reaped when the test ends in any way.
#ifndef MESHNET_TESTS_SESSION_CHILD_PROCESSES_H_
#define MESHNET_TESTS_SESSION_CHILD_PROCESSES_H_

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace meshnet {

inline std::chrono::steady_clock::time_point InMilliseconds(int milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

// Looks until something holds; false where it does not within ten seconds.
inline bool Until(const std::function<bool()>& holds) {
  const auto deadline = InMilliseconds(10'000);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// One T in memory that forked children share.
template <typename T>
class Shared {
 public:
  Shared() : memory_(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    value_ = new (memory_) T();
  }
  ~Shared() { munmap(memory_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* get() const { return value_; }
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  void* memory_;
  T* value_;
};

class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    for (const pid_t child : running_) End(child, SIGKILL);
  }

  // Runs `body` in a child, which then ends at once: no destructors, no exit handlers.
  pid_t Start(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // were the test killed
      body();
      _exit(0);
    }
    running_.push_back(child);
    return child;
  }

  // Waits for its own end. Whether it ended well.
  bool Wait(pid_t child) {
    std::erase(running_, child);
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  void Kill(pid_t child) {
    std::erase(running_, child);
    End(child, SIGKILL);
  }

 private:
  static void End(pid_t child, int signal) {
    kill(child, signal);
    waitpid(child, nullptr, 0);
  }

  std::vector<pid_t> running_;
};

}  // namespace meshnet

#endif  // MESHNET_TESTS_SESSION_CHILD_PROCESSES_H_
