// Limits of a GGUF header, checked before a library allocates memory for it. Otherwise a small hostile file could fill
// the machine's memory: a string takes several times its size in the file, and a sparse file is long without taking
// disk space.
#ifndef MESHNET_ENGINE_GGUF_LIMITS_H_
#define MESHNET_ENGINE_GGUF_LIMITS_H_

#include <string>

#include "wire/status.h"

namespace meshnet {

// Reads a GGUF file's header from beginning to end without holding it in memory, and checks its counts and lengths, but
// not its meaning. The caller has checked the magic. Fails with kFileMissing, with kTruncated if the header is cut
// off, and with kNotGguf if a count or a length is larger than any model's.
Status CheckGgufLimits(const std::string& path);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_GGUF_LIMITS_H_
