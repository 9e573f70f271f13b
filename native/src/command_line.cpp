#include "command_line.h"

namespace meshnet {

CommandLine ParseCommandLine(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) {
    return {Command::kInvalid, "expected exactly one argument"};
  }
  const std::string& argument = arguments.front();
  if (argument == "--version") return {Command::kVersion, ""};
  if (argument == "--list-devices") return {Command::kListDevices, ""};
  if (argument == "--help") return {Command::kHelp, ""};
  return {Command::kInvalid, "unknown argument " + argument};
}

}  // namespace meshnet
