#include "wire/tensor_codec.h"

#include <bit>
#include <cstring>

#include "wire/identity.h"

namespace meshnet {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are little-endian on the wire and used in place");

Status Malformed(const char* message) { return {Code::kMalformed, message}; }

bool IsKnown(v1::DType dtype) { return DTypeBytes(dtype) != 0; }

bool IsKnown(v1::Codec codec) { return codec == v1::CODEC_RAW || codec == v1::CODEC_BF16 || codec == v1::CODEC_Q8_0; }

bool IsKnown(v1::Phase phase) {
  return phase == v1::PHASE_PREFILL || phase == v1::PHASE_DECODE || phase == v1::PHASE_VERIFY;
}

Status CheckHeader(const v1::Frame& frame) {
  const std::uint32_t rows = frame.rows();
  if (rows < 1 || rows > kMaxRows) return Malformed("the number of rows is out of range");
  if (!IsKnown(frame.phase())) return Malformed("the phase is unknown");
  if (frame.position() > kMaxPosition - rows) return Malformed("a position is out of range");
  if (frame.phase() == v1::PHASE_DECODE && rows != 1) return Malformed("a decode frame has several rows");
  if (frame.prompt_end() && frame.phase() != v1::PHASE_PREFILL) return Malformed("a prompt ends outside prefill");
  if (frame.token_ids_size() != 0 && static_cast<std::uint32_t>(frame.token_ids_size()) != rows) {
    return Malformed("token ids are there for some rows only");
  }
  for (const std::uint32_t id : frame.token_ids()) {
    if (id > kMaxTokenId) return {Code::kBadTokenId, "a token id is out of range"};
  }
  std::int64_t last = -1;
  for (const std::uint32_t row : frame.logits_rows()) {
    if (row >= rows || static_cast<std::int64_t>(row) <= last)
      return Malformed("the logits rows are out of order or out of range");
    last = row;
  }
  if (frame.tensors_size() > kMaxTensors) return Malformed("the frame has too many tensors");
  return Status::Ok();
}

Status CheckTensor(const v1::Tensor& tensor, std::uint32_t rows) {
  if (tensor.name().empty() || tensor.name().size() > kMaxTensorNameBytes) {
    return Malformed("a tensor's name is empty or too long");
  }
  if (!IsKnown(tensor.dtype())) return {Code::kWrongDtype, "the element type is unknown"};
  if (!IsKnown(tensor.codec())) return {Code::kWrongDtype, "the codec is unknown"};
  if (tensor.shape_size() != 2 || tensor.shape(0) != rows || tensor.shape(1) < 1 ||
      tensor.shape(1) > kMaxElementsPerRow) {
    return {Code::kWrongShape, "a tensor's shape is not [rows, elements]"};
  }
  if (tensor.codec() != v1::CODEC_RAW && tensor.dtype() != v1::DTYPE_F32) {
    return {Code::kWrongDtype, "a codec packs only f32 rows"};
  }
  if (tensor.codec() == v1::CODEC_Q8_0 && tensor.shape(1) % kQ80BlockElements != 0) {
    return {Code::kWrongShape, "q8_0 needs rows of whole blocks of 32"};
  }
  if (PackedBytes(tensor.dtype(), tensor.codec(), tensor.shape(0), tensor.shape(1)) > kMaxTensorBytes) {
    return {Code::kMessageTooLarge, "rows exceed any window"};
  }
  return Status::Ok();
}

Status CheckTensors(const v1::Frame& frame) {
  for (int i = 0; i < frame.tensors_size(); ++i) {
    const Status status = CheckTensor(frame.tensors(i), frame.rows());
    if (!status.ok()) return status;
    for (int j = 0; j < i; ++j) {
      if (frame.tensors(i).name() == frame.tensors(j).name()) return Malformed("two tensors have one name");
    }
  }
  return Status::Ok();
}

Status CheckWholeTensors(const v1::Frame& frame) {
  for (const v1::Tensor& tensor : frame.tensors()) {
    if (tensor.data().size() != PackedBytes(tensor.dtype(), tensor.codec(), tensor.shape(0), tensor.shape(1))) {
      return {Code::kWrongSize, "the tensor's bytes are not rows x elements"};
    }
  }
  return Status::Ok();
}

Status CheckFragment(const v1::Frame& frame) {
  const v1::Fragment& fragment = frame.fragment();
  if (frame.tensors_size() != 1) return Malformed("a fragmented frame has one tensor");
  const v1::Tensor& tensor = frame.tensors(0);
  if (fragment.count() < 2 || fragment.count() > kMaxFragments || fragment.index() >= fragment.count()) {
    return Malformed("a fragment's index or count is out of range");
  }
  if (fragment.total_bytes() != PackedBytes(tensor.dtype(), tensor.codec(), tensor.shape(0), tensor.shape(1))) {
    return {Code::kWrongSize, "a fragment's total is not its rows' size"};
  }
  // The check subtracts, since a sum could overflow: offsets come from a peer and may be near 2^64.
  if (tensor.data().empty() || tensor.data().size() > fragment.total_bytes() ||
      fragment.offset_bytes() > fragment.total_bytes() - tensor.data().size()) {
    return {Code::kWrongSize, "a fragment reaches beyond its rows"};
  }
  const bool starts = fragment.offset_bytes() == 0;
  const bool ends = fragment.offset_bytes() + tensor.data().size() == fragment.total_bytes();
  if ((fragment.index() == 0) != starts || (fragment.index() == fragment.count() - 1) != ends) {
    return Malformed("a fragment's index and offset contradict each other");
  }
  return Status::Ok();
}

}  // namespace

std::size_t DTypeBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F32:
    case v1::DTYPE_I32:
      return 4;
    case v1::DTYPE_F16:
    case v1::DTYPE_BF16:
      return 2;
    default:
      return 0;
  }
}

std::uint64_t PackedBytes(v1::DType dtype, v1::Codec codec, std::uint32_t rows, std::uint32_t elements_per_row) {
  const std::uint64_t elements = std::uint64_t{rows} * elements_per_row;
  switch (codec) {
    case v1::CODEC_RAW:
      return elements * DTypeBytes(dtype);
    case v1::CODEC_BF16:
      return elements * 2;
    case v1::CODEC_Q8_0:
      return elements / kQ80BlockElements * kQ80BlockBytes;
    default:
      return 0;
  }
}

std::uint64_t TensorBytes(const v1::Frame& frame) {
  std::uint64_t bytes = 0;
  for (const v1::Tensor& tensor : frame.tensors()) bytes += tensor.data().size();
  return bytes;
}

Result<v1::Frame> ParseFrame(std::string_view bytes, std::size_t limit_bytes) {
  if (bytes.size() > limit_bytes) return Status(Code::kMessageTooLarge, "the message is longer than its limit");
  v1::Frame frame;
  if (!frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return Malformed("the bytes are not a frame");
  Status status = CheckAddress(frame.session(), frame.epoch(), frame.from_stage(), frame.to_stage());
  if (status.ok()) status = CheckFrame(frame);
  if (!status.ok()) return status;
  return frame;
}

Status CheckAddress(const std::string& session, std::uint32_t epoch, std::uint32_t from_stage, std::uint32_t to_stage) {
  if (session.size() != kSessionIdBytes) return Malformed("the session's id does not have 16 bytes");
  if (epoch < 1) return Malformed("epochs count from 1");
  if (!IsStage(from_stage) || !IsStage(to_stage)) return Malformed("the stage's number is out of range");
  if (from_stage == to_stage) return Malformed("an edge from a stage to itself never leaves the worker");
  return Status::Ok();
}

Status CheckResidence(const google::protobuf::RepeatedPtrField<v1::StageResidence>& residence) {
  std::uint64_t seen = 0;
  for (const v1::StageResidence& entry : residence) {
    if (entry.stage() >= kMaxStages) return Malformed("a residence entry's stage is out of range");
    const std::uint64_t bit = std::uint64_t{1} << entry.stage();
    if ((seen & bit) != 0) return Malformed("two residence entries are of one stage");
    seen |= bit;
  }
  return Status::Ok();
}

Status CheckFrame(const v1::Frame& frame) {
  if (frame.to_stage() == kGatewayStage) return Malformed("the Gateway takes no frames");
  Status status = CheckHeader(frame);
  if (status.ok()) status = CheckTensors(frame);
  if (status.ok()) status = frame.has_fragment() ? CheckFragment(frame) : CheckWholeTensors(frame);
  if (status.ok()) status = CheckResidence(frame.residence());
  return status;
}

std::string SerialiseFrame(const v1::Frame& frame) { return frame.SerializeAsString(); }

bool AllFinite(std::string_view data) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  // No early exit: the loop vectorises, and finite data is the normal case.
  std::uint32_t poisoned = 0;
  for (std::size_t offset = 0; offset + 4 <= data.size(); offset += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, data.data() + offset, 4);
    poisoned |= static_cast<std::uint32_t>((bits & kExponent) == kExponent);
  }
  return poisoned == 0;
}

bool AllFinite(std::span<const float> values) {
  return AllFinite(std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
}

void AddTensor(std::string_view name, std::uint32_t rows, std::span<const float> values, v1::Frame* frame) {
  v1::Tensor* tensor = frame->add_tensors();
  tensor->set_name(name.data(), name.size());
  tensor->set_dtype(v1::DTYPE_F32);
  tensor->add_shape(rows);
  tensor->add_shape(static_cast<std::uint32_t>(values.size() / rows));
  tensor->set_codec(v1::CODEC_RAW);
  tensor->set_data(values.data(), values.size_bytes());
}

void CopyTensor(const v1::Tensor& tensor, std::span<float> values) {
  std::memcpy(values.data(), tensor.data().data(), std::min(tensor.data().size(), values.size_bytes()));
}

}  // namespace meshnet
