// Limits of a GGUF header, checked before a library allocates memory for it: strings take several times the memory that
// they have in the file, and the pages of a sparse file cost nothing.
#ifndef MESHNET_ENGINE_GGUF_LIMITS_H_
#define MESHNET_ENGINE_GGUF_LIMITS_H_

#include <string>

#include "wire/status.h"

namespace meshnet {

// Reads through the header of a file that begins as GGUF, in little memory; does not check its meaning. kFileMissing,
// kTruncated (the header is cut off), kNotGguf (a count or a length is larger than any model's).
Status CheckGgufLimits(const std::string& path);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_GGUF_LIMITS_H_
