// Links between workers of one user on one machine: Unix sockets in a directory that is this user's alone.
//
// Such a peer is not asked for a certificate, and nothing is encrypted: who may open the socket may as well read the
// memory of the process behind it. A peer claims its fingerprint; each worker's socket is named after its own, which is
// new at every start.
#ifndef MESHNET_LINK_LOCAL_LINKS_H_
#define MESHNET_LINK_LOCAL_LINKS_H_

#include <string>

#include "wire/status.h"

namespace meshnet {

// kInvalidArgument: not a directory of this user's own that others may not enter, or a path too long for a socket.
Status CheckLocalLinks(const std::string& directory);

// Where the worker with that fingerprint listens, if it listens there.
std::string LocalLinkPath(const std::string& directory, const std::string& fingerprint);

// Whether such a worker may be there: a socket is.
bool HasLocalLink(const std::string& directory, const std::string& fingerprint);

// Removes sockets that nobody listens at: workers that were killed left them.
void RemoveDeadLinks(const std::string& directory);

}  // namespace meshnet

#endif  // MESHNET_LINK_LOCAL_LINKS_H_
