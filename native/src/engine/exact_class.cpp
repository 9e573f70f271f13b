#include "engine/exact_class.h"

#include "build_facts.h"

namespace meshnet {

ExactClass BuildExactClass() {
  ExactClass exact;
  exact.pin = kUpstreamCommit;
  exact.patched_tree = kPatchedTreeSha256;
  exact.backend = MESHNET_WITH_LLAMA ? "cpu" : "fake";
  exact.instruction_sets = kInstructionSets;
  exact.repack = MESHNET_WITH_LLAMA;
  return exact;
}

}  // namespace meshnet
