#include "process/command_line.h"

#include <gtest/gtest.h>

namespace meshnet {
namespace {

TEST(CommandLineTest, KnowsItsCommands) {
  EXPECT_EQ(ParseCommandLine({"--version"}).command, Command::kVersion);
  EXPECT_EQ(ParseCommandLine({"--list-devices"}).command, Command::kListDevices);
  EXPECT_EQ(ParseCommandLine({"--help"}).command, Command::kHelp);
}

TEST(CommandLineTest, RefusesEverythingElseWithAReason) {
  const std::vector<std::vector<std::string>> cases = {{}, {""}, {"version"}, {"--version", "--help"}, {"--versio"}};
  for (const std::vector<std::string>& arguments : cases) {
    const CommandLine line = ParseCommandLine(arguments);
    EXPECT_EQ(line.command, Command::kInvalid);
    EXPECT_FALSE(line.error.empty());
  }
}

}  // namespace
}  // namespace meshnet
