// Links between workers of one user on one machine: Unix sockets in a directory that is private to this user.
//
// Such a peer is not asked for a certificate, and nothing is encrypted: a process that can open the socket could as
// well read the memory of the worker behind it. A peer claims its fingerprint. Each worker's socket is named after the
// worker's own fingerprint, which is new at every start.
#ifndef MESHNET_LINK_LOCAL_LINKS_H_
#define MESHNET_LINK_LOCAL_LINKS_H_

#include <string>

#include "wire/status.h"

namespace meshnet {

// kInvalidArgument if it is not a directory of this user that others may not enter, or too long for a socket's path.
Status CheckLocalLinks(const std::string& directory);

// Path of the socket at which the worker with this fingerprint listens, if it does.
std::string LocalLinkPath(const std::string& directory, const std::string& fingerprint);

// Whether the worker's socket exists; the worker may be gone.
bool HasLocalLink(const std::string& directory, const std::string& fingerprint);

// Removes sockets on which no process listens, left by workers that were killed.
void RemoveDeadLinks(const std::string& directory);

}  // namespace meshnet

#endif  // MESHNET_LINK_LOCAL_LINKS_H_
