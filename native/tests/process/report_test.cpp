#include "process/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "wire/protocol_limits.h"

namespace meshnet {
namespace {

using Json = nlohmann::json;

TEST(VersionReportTest, NamesVersionsAndExactClass) {
  const Json report = Json::parse(VersionReport());
  EXPECT_FALSE(report.at("worker").get<std::string>().empty());
  EXPECT_LE(report.at("wire").at("min").get<std::uint32_t>(), report.at("wire").at("max").get<std::uint32_t>());
  EXPECT_EQ(report.at("contract").at("graph_semantics").get<std::uint32_t>(), kGraphSemanticsVersion);
  const Json& exact = report.at("exact_class");
  EXPECT_EQ(exact.at("pin").get<std::string>().size(), 40u);
  EXPECT_EQ(exact.at("patched_tree").get<std::string>().size(), 64u);
  EXPECT_EQ(exact.at("backend").get<std::string>(), MESHNET_WITH_LLAMA ? "cpu" : "fake");
  EXPECT_EQ(exact.at("repack").get<bool>(), MESHNET_WITH_LLAMA != 0);
}

TEST(DeviceReportTest, KeepsOrderAndBytes) {
  const std::uint64_t large = std::uint64_t{1} << 40;
  const Json devices =
      Json::parse(DeviceReport({{"A", "first", "cpu", 1, large}, {"B", "", "gpu", 0, 0}})).at("devices");
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].at("name"), "A");
  EXPECT_EQ(devices[0].at("memory_total_bytes").get<std::uint64_t>(), large);
  EXPECT_EQ(devices[1].at("type"), "gpu");
}

TEST(DeviceReportTest, SurvivesANameThatIsNotUtf8) {
  const Json devices = Json::parse(DeviceReport({{"bad\xff", "", "gpu", 0, 0}})).at("devices");
  EXPECT_EQ(devices[0].at("name").get<std::string>(), "bad\xEF\xBF\xBD");
}

TEST(DeviceReportTest, EmptyListIsAnArray) { EXPECT_TRUE(Json::parse(DeviceReport({})).at("devices").is_array()); }

}  // namespace
}  // namespace meshnet
