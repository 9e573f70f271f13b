#include "session/probe.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "wire/digest.h"
#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

// The hidden rows that a probe feeds to the shard; rows of zeros if the request has none.
Result<std::vector<float>> ProbeRows(const ShardFacts& facts, const v1::ProbeRequest& request, std::uint32_t rows) {
  std::vector<float> hidden(std::size_t{rows} * facts.input_width, 0.0f);
  if (request.tensors().empty() || facts.input_width == 0) return hidden;
  const v1::Tensor& tensor = request.tensors(0);
  if (tensor.dtype() != v1::DTYPE_F32 || tensor.codec() != v1::CODEC_RAW) {
    return Status(Code::kWrongDtype, "a probe takes raw f32 rows only");
  }
  if (tensor.shape_size() != 2 || tensor.shape(0) != rows || tensor.shape(1) != facts.input_width) {
    return Status(Code::kWrongShape, "the rows do not fit the shard");
  }
  if (tensor.data().size() != hidden.size() * sizeof(float))
    return Status(Code::kWrongSize, "the rows do not have the shard's size");
  CopyTensor(tensor, hidden);
  return hidden;
}

// The rows whose logits are computed: the last one, as for a prompt chunk, so that a timed probe costs the same as a
// chunk; all rows if `wants_all`.
std::vector<std::uint32_t> LogitsRows(const ShardFacts& facts, std::uint32_t rows, bool wants_all) {
  if (!facts.is_tail()) return {};
  if (!wants_all) return {rows - 1};
  std::vector<std::uint32_t> all(rows);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

// The outputs of a probe's steps (hidden rows or logits), one after the other, and the time spent in the engine.
struct ProbeOutput {
  std::vector<float> values;
  std::uint32_t rows = 0;
  std::chrono::steady_clock::duration elapsed{0};
};

// Runs `rows` rows of the request in an open sequence, after its first `done` rows were computed.
Status RunRows(ShardEngine* engine, SequenceId sequence, const v1::ProbeRequest& request, std::span<const float> hidden,
               std::uint32_t done, std::uint32_t rows, ProbeOutput* output) {
  const ShardFacts& facts = engine->facts();
  const std::vector<std::uint32_t> logits_rows = LogitsRows(facts, rows, request.want_outputs());
  const std::span<const std::uint32_t> ids(request.token_ids().data(),
                                           static_cast<std::size_t>(request.token_ids_size()));
  StepSlice slice;
  slice.sequence = sequence;
  slice.position = done;
  slice.rows = rows;
  slice.token_ids = ids.empty() ? ids : ids.subspan(done, rows);
  slice.hidden = hidden.subspan(std::size_t{done} * facts.input_width, std::size_t{rows} * facts.input_width);
  slice.logits_rows = logits_rows;
  std::vector<StepResult> results;
  const auto start = std::chrono::steady_clock::now();
  const Status status = engine->Step({&slice, 1}, &results);
  output->elapsed += std::chrono::steady_clock::now() - start;
  if (!status.ok()) return status;
  if (!results[0].status.ok()) return results[0].status;
  const std::span<const float> values = facts.is_tail() ? results[0].logits : results[0].hidden;
  output->values.insert(output->values.end(), values.begin(), values.end());
  output->rows += facts.is_tail() ? static_cast<std::uint32_t>(logits_rows.size()) : rows;
  return Status::Ok();
}

v1::ProbeReply ToReply(const ShardFacts& facts, const ProbeOutput& output, bool wants_outputs) {
  v1::ProbeReply reply;
  reply.set_compute_us(
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(output.elapsed).count()));
  v1::Frame carrier;
  AddTensor(facts.is_tail() ? "logits" : kHiddenTensor, output.rows, output.values, &carrier);
  reply.set_output_digest(Sha256(carrier.tensors(0).data()));
  if (wants_outputs) *reply.add_outputs() = std::move(*carrier.mutable_tensors(0));
  return reply;
}

}  // namespace

Result<v1::ProbeReply> RunProbe(ShardEngine* engine, SequenceId sequence, const v1::ProbeRequest& request) {
  const ShardFacts& facts = engine->facts();
  const bool has_rows = !request.tensors().empty() && request.tensors(0).shape_size() == 2;
  const auto ids = static_cast<std::uint32_t>(request.token_ids_size());
  const std::uint32_t rows = has_rows ? request.tensors(0).shape(0) : std::max(ids, 1u);
  if (rows == 0 || rows > facts.max_step_rows) return Status(Code::kWrongShape, "the number of rows is out of range");
  if (ids != 0 && ids != rows) return Status(Code::kWrongShape, "the frame does not have one token id for each row");
  const Result<std::vector<float>> hidden = ProbeRows(facts, request, rows);
  if (!hidden.ok()) return hidden.status();
  const std::uint32_t step_rows = request.step_rows() == 0 ? rows : request.step_rows();

  Status status = engine->Open(sequence);
  if (!status.ok()) return status;
  ProbeOutput output;
  for (std::uint32_t done = 0; done < rows && status.ok();) {
    const std::uint32_t next = std::min(step_rows, rows - done);
    status = RunRows(engine, sequence, request, hidden.value(), done, next, &output);
    done += next;
  }
  engine->Close(sequence);
  if (!status.ok()) return status;
  return ToReply(facts, output, request.want_outputs());
}

}  // namespace meshnet
