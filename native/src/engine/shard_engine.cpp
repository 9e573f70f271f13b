#include "engine/shard_engine.h"

#include "wire/digest.h"
#include "wire/protocol_limits.h"
#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

Status CheckTokenIds(const ShardFacts& facts, const StepSlice& slice) {
  if (slice.token_ids.empty()) {
    if (!facts.contract.needs_token_ids()) return Status::Ok();
    return {Code::kMissingTokenIds, "this shard needs the rows' token ids"};
  }
  if (slice.token_ids.size() != slice.rows) return {Code::kWrongSize, "token ids are there for some rows only"};
  for (const std::uint32_t id : slice.token_ids) {
    if (id >= facts.contract.vocab_size()) return {Code::kBadTokenId, "a token id is outside the vocabulary"};
  }
  return Status::Ok();
}

Status CheckLogitsRows(const StepSlice& slice) {
  std::int64_t last = -1;
  for (const std::uint32_t row : slice.logits_rows) {
    if (row >= slice.rows || static_cast<std::int64_t>(row) <= last) {
      return {Code::kWrongShape, "the logits rows are out of order or out of range"};
    }
    last = row;
  }
  return Status::Ok();
}

}  // namespace

Status CheckSlice(const ShardFacts& facts, std::uint64_t length, const StepSlice& slice) {
  if (slice.rows == 0 || slice.rows > facts.max_step_rows)
    return {Code::kWrongShape, "the number of rows is out of range"};
  Status status = CheckTokenIds(facts, slice);
  if (!status.ok()) return status;
  if (slice.hidden.size() != std::size_t{slice.rows} * facts.input_width) {
    return {Code::kWrongSize, "the hidden rows do not have the model's width"};
  }
  status = CheckLogitsRows(slice);
  if (!status.ok()) return status;
  if (slice.position != length) return {Code::kWrongPosition, "the rows do not begin at the sequence's length"};
  if (length + slice.rows > facts.contract.context_length())
    return {Code::kContextFull, "no KV cells are left for the rows"};
  if (!AllFinite(slice.hidden)) return {Code::kNotFinite, "a row has a value that is not finite"};
  return Status::Ok();
}

std::string ContractDigest(const LoadPlan& plan, const v1::BoundaryContract& contract, std::string_view details) {
  std::string text = "meshnet contract v1";
  const auto add = [&text](std::string_view name, std::string_view value) {
    text.push_back('\0');
    text.append(name).append("=").append(value);
  };
  add("artifact", ToHex(plan.artifact_digest));
  add("graph", std::to_string(kGraphSemanticsVersion));
  add("architecture", contract.architecture());
  add("n_layers", std::to_string(contract.n_layers()));
  add("context_length", std::to_string(contract.context_length()));
  add("vocab_size", std::to_string(contract.vocab_size()));
  add("details", details);
  return Sha256(text);
}

void AddHiddenSpec(std::uint32_t elements_per_row, google::protobuf::RepeatedPtrField<v1::TensorSpec>* specs) {
  v1::TensorSpec* spec = specs->Add();
  spec->set_name(kHiddenTensor.data(), kHiddenTensor.size());
  spec->set_dtype(v1::DTYPE_F32);
  spec->set_elements_per_row(elements_per_row);
}

}  // namespace meshnet
