#include "probe.h"

#include <chrono>
#include <numeric>

#include "digest.h"
#include "tensor_codec.h"

namespace meshnet {
namespace {

// A probe on a stage that takes hidden rows may leave them out: rows of zeros then.
Result<std::vector<float>> ProbeRows(const ShardFacts& facts, const v1::ProbeRequest& request, std::uint32_t rows) {
  std::vector<float> hidden(std::size_t{rows} * facts.input_width, 0.0f);
  if (request.tensors().empty() || facts.input_width == 0) return hidden;
  const v1::Tensor& tensor = request.tensors(0);
  if (tensor.dtype() != v1::DTYPE_F32 || tensor.codec() != v1::CODEC_RAW) {
    return Status(Code::kWrongDtype, "a probe takes raw f32 rows");
  }
  if (tensor.shape_size() != 2 || tensor.shape(0) != rows || tensor.shape(1) != facts.input_width) {
    return Status(Code::kWrongShape, "rows that do not fit the shard");
  }
  if (tensor.data().size() != hidden.size() * sizeof(float)) return Status(Code::kWrongSize, "rows of another size");
  CopyTensor(tensor, hidden);
  return hidden;
}

// The last row's alone, as a prompt chunk asks for them, so that a timed probe costs what a chunk costs; all of them
// where the caller wants to compare rows.
std::vector<std::uint32_t> LogitsRows(const ShardFacts& facts, std::uint32_t rows, bool wants_all) {
  if (!facts.is_tail()) return {};
  if (!wants_all) return {rows - 1};
  std::vector<std::uint32_t> all(rows);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

}  // namespace

Result<v1::ProbeReply> RunProbe(ShardEngine* engine, SequenceId sequence, const v1::ProbeRequest& request) {
  const ShardFacts& facts = engine->facts();
  const bool has_rows = !request.tensors().empty() && request.tensors(0).shape_size() == 2;
  const std::uint32_t rows =
      has_rows ? request.tensors(0).shape(0) : static_cast<std::uint32_t>(std::max(request.token_ids_size(), 1));
  if (rows == 0 || rows > facts.max_step_rows) return Status(Code::kWrongShape, "a number of rows out of range");
  const Result<std::vector<float>> hidden = ProbeRows(facts, request, rows);
  if (!hidden.ok()) return hidden.status();
  const std::vector<std::uint32_t> logits_rows = LogitsRows(facts, rows, request.want_outputs());
  StepSlice slice;
  slice.sequence = sequence;
  slice.rows = rows;
  slice.token_ids = {request.token_ids().data(), static_cast<std::size_t>(request.token_ids_size())};
  slice.hidden = hidden.value();
  slice.logits_rows = logits_rows;

  Status status = engine->Open(sequence);
  if (!status.ok()) return status;
  std::vector<StepResult> results;
  const auto start = std::chrono::steady_clock::now();
  status = engine->Step({&slice, 1}, &results);
  const auto elapsed = std::chrono::steady_clock::now() - start;
  if (status.ok()) status = results[0].status;
  v1::ProbeReply reply;
  if (status.ok()) {
    reply.set_compute_us(
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count()));
    v1::Frame carrier;
    const std::uint32_t output_rows = facts.is_tail() ? static_cast<std::uint32_t>(logits_rows.size()) : rows;
    AddTensor(facts.is_tail() ? "logits" : kHiddenTensor, output_rows,
              facts.is_tail() ? results[0].logits : results[0].hidden, &carrier);
    reply.set_output_digest(Sha256(carrier.tensors(0).data()));
    if (request.want_outputs()) *reply.add_outputs() = std::move(*carrier.mutable_tensors(0));
  }
  engine->Close(sequence);
  if (!status.ok()) return status;
  return reply;
}

}  // namespace meshnet
