// Links between workers of one user on one machine: Unix sockets in a directory that is private to this user.
//
// A peer at such a socket is not asked for a certificate, and nothing is encrypted: a process that can open the socket
// could as well read the memory of the worker behind it. The peer only claims its fingerprint. Each worker's socket is
// named after the worker's own fingerprint, which is new at every start.
#ifndef MESHNET_LINK_LOCAL_LINKS_H_
#define MESHNET_LINK_LOCAL_LINKS_H_

#include <string>

#include "wire/status.h"

namespace meshnet {

// Checks that `directory` is a directory that belongs to this user, that no other user may enter it, and that its path
// is short enough for a socket in it. kInvalidArgument otherwise.
Status CheckLocalLinks(const std::string& directory);

// Path of the socket of the worker with this fingerprint, whether or not the socket exists.
std::string LocalLinkPath(const std::string& directory, const std::string& fingerprint);

// Whether the socket of the worker with this fingerprint exists. The worker itself may have ended.
bool HasLocalLink(const std::string& directory, const std::string& fingerprint);

// Removes sockets on which no process listens, left by workers that were killed.
void RemoveDeadLinks(const std::string& directory);

}  // namespace meshnet

#endif  // MESHNET_LINK_LOCAL_LINKS_H_
