#include "engine/llama_aborts.h"

#include <ggml.h>

#include <cstdio>
#include <mutex>
#include <stdexcept>

namespace meshnet {
namespace {

thread_local int scopes = 0;

void OnAbort(const char* message) {
  if (scopes > 0) throw std::runtime_error(message);
  std::fprintf(stderr, "%s\n", message);
}

}  // namespace

AbortsAreExceptions::AbortsAreExceptions() {
  static std::once_flag once;
  std::call_once(once, [] { ggml_set_abort_callback(OnAbort); });
  ++scopes;
}

AbortsAreExceptions::~AbortsAreExceptions() { --scopes; }

}  // namespace meshnet
