// The worker's command line.
#ifndef MESHNET_PROCESS_COMMAND_LINE_H_
#define MESHNET_PROCESS_COMMAND_LINE_H_

#include <string>
#include <vector>

namespace meshnet {

enum class Command { kHelp, kVersion, kListDevices, kServe, kInvalid };

// Options of a worker that serves.
struct ServeOptions {
  std::string socket_path;
  int parent_pid = 0;       // 0: not tied to a parent
  std::string link_listen;  // host:port; empty: does not listen for peers
  std::string local_links;  // directory; empty: peers of this machine are treated like remote ones
};

struct CommandLine {
  Command command = Command::kInvalid;
  std::string error;   // Set for kInvalid only: one line for the terminal.
  ServeOptions serve;  // kServe only
};

inline constexpr char kUsage[] =
    "usage: meshnet-worker --version | --list-devices | --help\n"
    "       meshnet-worker --socket PATH [--parent-pid PID] [--link-listen HOST:PORT] [--local-links DIR]\n"
    "  --version            versions and exact-class fields of this build, as JSON\n"
    "  --list-devices       compute devices with their memory, as JSON\n"
    "  --socket PATH        serve the agent on this Unix socket; its folder should be private\n"
    "  --parent-pid PID     end when this process, our parent, has ended\n"
    "  --link-listen ADDR   accept other workers here; port 0 takes a free one\n"
    "  --local-links DIR    meet other workers of this user and machine here as well, without TLS; DIR is 0700\n";

// Reads the arguments after the program's name. Never throws on user input.
CommandLine ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace meshnet

#endif  // MESHNET_PROCESS_COMMAND_LINE_H_
