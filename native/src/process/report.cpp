#include "process/report.h"

#include <nlohmann/json.hpp>

#include "build_facts.h"
#include "engine/exact_class.h"
#include "wire/protocol_limits.h"

namespace meshnet {
namespace {

using Json = nlohmann::ordered_json;

// Names come from drivers and may hold any bytes; invalid ones are replaced, so that dump does not throw.
std::string Print(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json ExactClassJson(const ExactClass& exact) {
  return {{"pin", exact.pin},
          {"patched_tree", exact.patched_tree},
          {"backend", exact.backend},
          {"instruction_sets", exact.instruction_sets},
          {"repack", exact.repack},
          {"flash_attention", exact.flash_attention},
          {"kv_type_k", exact.kv_type_k},
          {"kv_type_v", exact.kv_type_v},
          {"ubatch_rows", exact.ubatch_rows}};
}

}  // namespace

std::string VersionReport() {
  return Print({{"worker", kWorkerVersion},
                {"wire", {{"min", kWireVersionMin}, {"max", kWireVersionMax}}},
                {"contract", {{"graph_semantics", kGraphSemanticsVersion}}},
                {"exact_class", ExactClassJson(BuildExactClass())},
                {"llama", kLlamaVersion},
                {"ggml", kGgmlVersion}});
}

std::string DeviceReport(const std::vector<Device>& devices) {
  Json list = Json::array();
  for (const Device& device : devices) {
    list.push_back({{"name", device.name},
                    {"description", device.description},
                    {"type", device.type},
                    {"memory_free_bytes", device.memory_free_bytes},
                    {"memory_total_bytes", device.memory_total_bytes}});
  }
  return Print({{"devices", list}});
}

}  // namespace meshnet
