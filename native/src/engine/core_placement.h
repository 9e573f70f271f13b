// Binds each of the engine's threads to a core of its own if they use all cores.
//
// The kernel often wakes a thread on the core of the thread that wakes it, although another core is free, and leaves it
// there for a millisecond or more. Meanwhile the step runs at half its speed; and if another program keeps a core busy,
// both threads are moved onto one core again and again. With one thread bound to each core, neither happens. If there
// are fewer threads than cores, the kernel places them: it knows better which cores are free.
#ifndef MESHNET_ENGINE_CORE_PLACEMENT_H_
#define MESHNET_ENGINE_CORE_PLACEMENT_H_

#include <vector>

namespace meshnet {

// The cores that this thread may run on, ascending. Empty if the system does not tell.
std::vector<int> AllowedCores();

// The cores for `threads` threads, one each: all allowed cores, or none if the threads are not to be bound.
std::vector<int> CoresToBind(unsigned threads, const std::vector<int>& allowed);

// Binds the calling thread. If the system refuses, returns false and the thread stays unbound.
bool BindThisThread(const std::vector<int>& cores);

// Restores the calling thread's cores at the end of a scope in which library code may bind it.
class KeepsCores {
 public:
  KeepsCores() : cores_(AllowedCores()) {}
  ~KeepsCores() {
    if (!cores_.empty()) BindThisThread(cores_);
  }
  KeepsCores(const KeepsCores&) = delete;
  KeepsCores& operator=(const KeepsCores&) = delete;

 private:
  const std::vector<int> cores_;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_CORE_PLACEMENT_H_
