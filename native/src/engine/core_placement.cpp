#include "engine/core_placement.h"

#ifdef __linux__
#include <sched.h>
#endif

namespace meshnet {

std::vector<int> AllowedCores() {
  std::vector<int> cores;
#ifdef __linux__
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // The call fails if the machine has more cores than a cpu_set_t can name; then no thread is bound.
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
#endif
  return cores;
}

std::vector<int> CoresToBind(unsigned threads, const std::vector<int>& allowed) {
  if (threads < 2 || threads != allowed.size()) return {};
  return allowed;
}

bool BindThisThread([[maybe_unused]] const std::vector<int>& cores) {
#ifdef __linux__
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int core : cores) CPU_SET(core, &wanted);
  return sched_setaffinity(0, sizeof(wanted), &wanted) == 0;
#else
  return false;
#endif
}

}  // namespace meshnet
