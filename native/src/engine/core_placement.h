// Binds each of an engine's threads to a core of its own, if there is one thread for every core.
//
// The kernel often wakes a thread on the core of the thread that wakes it, although another core is free, and leaves it
// there for a millisecond or more. Meanwhile the step runs at half its speed; and if another program keeps a core busy,
// both threads are moved onto one core again and again. With one thread bound to each core, neither happens. If there
// are fewer threads than cores, the kernel places them: it knows better which cores are free.
#ifndef MESHNET_ENGINE_CORE_PLACEMENT_H_
#define MESHNET_ENGINE_CORE_PLACEMENT_H_

#include <vector>

namespace meshnet {

// Numbers of the cores that this thread may run on, ascending. Empty if the system does not tell them.
std::vector<int> AllowedCores();

// Chooses the cores to which `threads` threads are bound, one core each. Returns all of `allowed` if there are as many
// threads as cores and at least two; otherwise none, and no thread is to be bound.
std::vector<int> CoresToBind(unsigned threads, const std::vector<int>& allowed);

// Lets the calling thread run on `cores` only. Returns false and changes nothing if the system refuses, which every
// system but Linux does.
bool BindThisThread(const std::vector<int>& cores);

// Remembers on which cores the calling thread may run, and lets it run on them again at the end of the scope. It is for
// scopes in which library code may bind the thread to other cores.
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
