// Parses the worker's command line.
#ifndef MESHNET_PROCESS_COMMAND_LINE_H_
#define MESHNET_PROCESS_COMMAND_LINE_H_

#include <string>
#include <vector>

namespace meshnet {

enum class Command { kHelp, kVersion, kListDevices, kServe, kInvalid };

// Options of --socket, which makes the worker serve an agent.
struct ServeOptions {
  std::string socket_path;
  int parent_pid = 0;       // the worker ends when this parent has ended; 0: no parent is watched
  std::string link_listen;  // host:port to accept other workers at; empty: accepts none
  std::string local_links;  // directory to meet workers of this machine in; empty: they are met like remote ones
};

struct CommandLine {
  Command command = Command::kInvalid;
  std::string error;   // Set for kInvalid only: one line for the terminal.
  ServeOptions serve;  // set for kServe only
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

// Parses the arguments after the program's name. Wrong arguments give kInvalid and never an exception.
CommandLine ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace meshnet

#endif  // MESHNET_PROCESS_COMMAND_LINE_H_
