// What a GGUF header may hold, checked before a library takes memory for it: strings take several times the room that
// they have in the file, and the pages of a sparse file cost nothing.
#ifndef MESHNET_ENGINE_GGUF_LIMITS_H_
#define MESHNET_ENGINE_GGUF_LIMITS_H_

#include <string>

#include "wire/status.h"

namespace meshnet {

// Walks through the header of a file that begins as GGUF, in little memory. Whether it makes sense is for others to
// say. kFileMissing, kTruncated (it is cut off), kNotGguf (a count or a length is beyond any model's).
Status CheckGgufLimits(const std::string& path);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_GGUF_LIMITS_H_
