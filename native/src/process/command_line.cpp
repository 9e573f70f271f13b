#include "process/command_line.h"

#include <charconv>

namespace meshnet {
namespace {

// A Unix socket's address holds a path of 108 bytes, the last of them zero. Source: unix(7).
constexpr std::size_t kMaxSocketPathBytes = 107;

CommandLine Invalid(std::string error) { return {Command::kInvalid, std::move(error), {}}; }

bool ParsePid(const std::string& text, int* pid) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *pid);
  return error == std::errc() && end == text.data() + text.size() && *pid > 0;
}

CommandLine ParseServe(const std::vector<std::string>& arguments) {
  CommandLine line;
  line.command = Command::kServe;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool takes_value = argument == "--socket" || argument == "--parent-pid" || argument == "--link-listen" ||
                             argument == "--local-links";
    if (!takes_value) return Invalid("unknown argument " + argument);
    if (i + 1 == arguments.size()) return Invalid(argument + " needs a value");
    const std::string& value = arguments[++i];
    if (argument == "--socket") line.serve.socket_path = value;
    if (argument == "--link-listen") line.serve.link_listen = value;
    if (argument == "--local-links") line.serve.local_links = value;
    if (argument == "--parent-pid" && !ParsePid(value, &line.serve.parent_pid)) {
      return Invalid("--parent-pid takes a process id");
    }
  }
  if (line.serve.socket_path.empty()) return Invalid("--socket is missing");
  if (line.serve.socket_path.size() > kMaxSocketPathBytes) return Invalid("--socket: a path of 107 bytes at most");
  return line;
}

}  // namespace

CommandLine ParseCommandLine(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return Invalid("expected an argument");
  if (arguments.size() == 1) {
    const std::string& argument = arguments.front();
    if (argument == "--version") return {Command::kVersion, "", {}};
    if (argument == "--list-devices") return {Command::kListDevices, "", {}};
    if (argument == "--help") return {Command::kHelp, "", {}};
  }
  return ParseServe(arguments);
}

}  // namespace meshnet
