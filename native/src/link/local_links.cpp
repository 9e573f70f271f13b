#include "link/local_links.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "wire/digest.h"

namespace meshnet {
namespace {

// How many of a fingerprint's hexadecimal digits are in a socket's name: enough to tell workers apart, and few enough
// for the limit on a socket's path.
constexpr std::size_t kNameDigits = 32;
constexpr char kSuffix[] = ".sock";

bool IsDead(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool is_refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno == ECONNREFUSED;
  close(fd);
  return is_refused;
}

}  // namespace

Status CheckLocalLinks(const std::string& directory) {
  struct stat found{};
  if (lstat(directory.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return {Code::kInvalidArgument, directory + " is not a directory"};
  }
  if (found.st_uid != geteuid() || (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return {Code::kInvalidArgument, directory + " is not this user's alone"};
  }
  if (LocalLinkPath(directory, std::string(kDigestBytes, '\0')).size() >= sizeof(sockaddr_un::sun_path)) {
    return {Code::kInvalidArgument, directory + " is too long for a socket's path"};
  }
  return Status::Ok();
}

std::string LocalLinkPath(const std::string& directory, const std::string& fingerprint) {
  return directory + "/" + ToHex(fingerprint).substr(0, kNameDigits) + kSuffix;
}

bool HasLocalLink(const std::string& directory, const std::string& fingerprint) {
  struct stat found{};
  return lstat(LocalLinkPath(directory, fingerprint).c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
}

void RemoveDeadLinks(const std::string& directory) {
  std::error_code error;
  auto entry = std::filesystem::directory_iterator(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    std::error_code gone;
    if (entry->is_socket(gone) && path.ends_with(kSuffix) && IsDead(path)) unlink(path.c_str());
  }
}

}  // namespace meshnet
