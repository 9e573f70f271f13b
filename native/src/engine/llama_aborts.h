// llama.cpp's loader checks many values of a file by assertions, which end the process. While a model is loaded they
// are exceptions instead, which the library itself turns into a refusal.
#ifndef MESHNET_ENGINE_LLAMA_ABORTS_H_
#define MESHNET_ENGINE_LLAMA_ABORTS_H_

namespace meshnet {

// While this object lives, an assertion of ggml or llama.cpp that fails on this thread throws std::runtime_error
// through the library's frames. On other threads, and afterwards, it ends the process as usual. Scopes may be nested.
class AbortsAreExceptions {
 public:
  AbortsAreExceptions();
  ~AbortsAreExceptions();
  AbortsAreExceptions(const AbortsAreExceptions&) = delete;
  AbortsAreExceptions& operator=(const AbortsAreExceptions&) = delete;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_ABORTS_H_
