// The worker's command line.
#ifndef MESHNET_COMMAND_LINE_H_
#define MESHNET_COMMAND_LINE_H_

#include <string>
#include <vector>

namespace meshnet {

enum class Command { kHelp, kVersion, kListDevices, kInvalid };

struct CommandLine {
  Command command = Command::kInvalid;
  std::string error;  // Set for kInvalid only: one line for the terminal.
};

inline constexpr char kUsage[] =
    "usage: meshnet-worker --version | --list-devices | --help\n"
    "  --version       versions and exact-class fields of this build, as JSON\n"
    "  --list-devices  compute devices with their memory, as JSON\n";

// Reads the arguments after the program's name. Never throws on user input.
CommandLine ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace meshnet

#endif  // MESHNET_COMMAND_LINE_H_
