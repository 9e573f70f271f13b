// llama.cpp's loader checks many values of a file with assertions, and an assertion that fails ends the process. While
// a model is loaded, a failed assertion throws an exception instead; llama.cpp catches it, and the load fails.
#ifndef MESHNET_ENGINE_LLAMA_ABORTS_H_
#define MESHNET_ENGINE_LLAMA_ABORTS_H_

namespace meshnet {

// While this object lives, an assertion of ggml or llama.cpp that fails on this thread throws std::runtime_error
// through the library's stack frames. On other threads, and once the object is destroyed, a failed assertion ends the
// process as usual. Several objects may live at once on a thread.
class AbortsAreExceptions {
 public:
  AbortsAreExceptions();
  ~AbortsAreExceptions();
  AbortsAreExceptions(const AbortsAreExceptions&) = delete;
  AbortsAreExceptions& operator=(const AbortsAreExceptions&) = delete;
};

}  // namespace meshnet

#endif  // MESHNET_ENGINE_LLAMA_ABORTS_H_
