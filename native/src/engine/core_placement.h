// Which core each of the engine's threads runs on, where they use all that there are.
//
// The kernel often wakes a thread on the core of the one that wakes it, although another core is free, and leaves it
// there for a millisecond or more. A step whose second thread comes so late runs at half its speed meanwhile; and a
// foreign program that keeps a core busy moves both threads onto one again and again. With a thread a core, neither
// happens. Fewer threads than cores are left to the kernel: it knows better which cores are free.
#ifndef MESHNET_ENGINE_CORE_PLACEMENT_H_
#define MESHNET_ENGINE_CORE_PLACEMENT_H_

#include <vector>

namespace meshnet {

// The cores that this thread may run on, ascending. Empty where the system does not say.
std::vector<int> AllowedCores();

// The cores to bind so many threads to, one each: all that are allowed, or none where threads are to stay free.
std::vector<int> CoresToBind(unsigned threads, const std::vector<int>& allowed);

// Binds the calling thread. False where that is refused: then it runs where the kernel likes.
bool BindThisThread(const std::vector<int>& cores);

// Gives the calling thread back the cores it had, at the end of a scope in which somebody else's code may bind it.
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
