#include "wire/fragment.h"

#include <google/protobuf/util/message_differencer.h>

#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

// Room for the length prefixes of a tensor and of its data, at most 5 bytes each. An empty tensor does not have them,
// so HeaderBytes adds them.
constexpr std::size_t kLengthPrefixBytes = 16;

std::size_t HeaderBytes(const v1::Frame& frame) {
  std::size_t bytes = frame.ByteSizeLong() - TensorBytes(frame);
  v1::Fragment largest;
  largest.set_index(kMaxFragments);
  largest.set_count(kMaxFragments);
  largest.set_offset_bytes(kMaxTensorBytes);
  largest.set_total_bytes(kMaxTensorBytes);
  bytes += largest.ByteSizeLong() + kLengthPrefixBytes;
  return bytes;
}

}  // namespace

Status FragmentFrame(v1::Frame&& frame, std::vector<v1::Frame>* parts, std::size_t limit_bytes) {
  if (frame.ByteSizeLong() <= limit_bytes) {
    parts->push_back(std::move(frame));
    return Status::Ok();
  }
  if (frame.tensors_size() != 1) return {Code::kMessageTooLarge, "only a frame of one tensor can be cut"};
  const std::size_t header_bytes = HeaderBytes(frame);
  const std::string data = std::move(*frame.mutable_tensors(0)->mutable_data());
  frame.mutable_tensors(0)->clear_data();
  const std::size_t part_bytes = limit_bytes > header_bytes ? limit_bytes - header_bytes : 0;
  const std::size_t count = part_bytes > 0 ? (data.size() + part_bytes - 1) / part_bytes : kMaxFragments + 1;
  if (count > kMaxFragments) return {Code::kMessageTooLarge, "the frame has too many parts"};
  for (std::size_t index = 0; index < count; ++index) {
    v1::Frame& part = parts->emplace_back(frame);
    part.mutable_tensors(0)->set_data(data.substr(index * part_bytes, part_bytes));
    v1::Fragment* fragment = part.mutable_fragment();
    fragment->set_index(static_cast<std::uint32_t>(index));
    fragment->set_count(static_cast<std::uint32_t>(count));
    fragment->set_offset_bytes(index * part_bytes);
    fragment->set_total_bytes(data.size());
  }
  return Status::Ok();
}

v1::Frame TakeRows(std::uint32_t rows, v1::Frame* frame) {
  std::vector<std::string> data;
  for (v1::Tensor& tensor : *frame->mutable_tensors()) {
    data.push_back(std::move(*tensor.mutable_data()));
    tensor.clear_data();
  }
  v1::Frame piece = *frame;
  const std::uint32_t rows_left = frame->rows() - rows;
  for (int i = 0; i < frame->tensors_size(); ++i) {
    std::string& bytes = data[static_cast<std::size_t>(i)];
    const std::size_t piece_bytes = bytes.size() / frame->rows() * rows;
    piece.mutable_tensors(i)->set_shape(0, rows);
    piece.mutable_tensors(i)->set_data(bytes.substr(0, piece_bytes));
    bytes.erase(0, piece_bytes);
    frame->mutable_tensors(i)->set_shape(0, rows_left);
    frame->mutable_tensors(i)->set_data(std::move(bytes));
  }
  if (!frame->token_ids().empty()) {
    piece.mutable_token_ids()->Truncate(static_cast<int>(rows));
    frame->mutable_token_ids()->ExtractSubrange(0, static_cast<int>(rows), nullptr);
  }
  piece.set_rows(rows);
  piece.set_prompt_end(false);
  piece.clear_logits_rows();
  piece.clear_residence();  // only the last piece reports the frame's residence
  frame->set_rows(rows_left);
  frame->set_position(frame->position() + rows);
  frame->set_rewind(false);
  for (std::uint32_t& row : *frame->mutable_logits_rows()) row -= rows;
  return piece;
}

Status FrameAssembler::Add(v1::Frame&& part, std::uint64_t limit_bytes, v1::Frame* whole, bool* complete) {
  *complete = false;
  if (!part.has_fragment() || part.fragment().index() != next_index_) {
    return {Code::kSequenceGap, "a part of the frame is missing"};
  }
  const v1::Fragment fragment = part.fragment();
  if (fragment.total_bytes() > limit_bytes)
    return {Code::kMessageTooLarge, "the rows are larger than the admitted window"};
  const std::string data = std::move(*part.mutable_tensors(0)->mutable_data());
  // After these fields are cleared, the headers of all parts must be equal.
  part.mutable_tensors(0)->clear_data();
  part.mutable_fragment()->set_index(0);
  part.mutable_fragment()->set_offset_bytes(0);
  if (next_index_ == 0) {
    header_ = std::move(part);
    data_.clear();
    data_.reserve(fragment.total_bytes());
  } else if (!google::protobuf::util::MessageDifferencer::Equals(part, header_)) {
    return {Code::kMalformed, "parts of one frame differ in their header"};
  }
  if (fragment.offset_bytes() != data_.size()) {
    return {Code::kMalformed, "a part does not begin where the last one ended"};
  }
  data_.append(data);
  if (++next_index_ < fragment.count()) return Status::Ok();
  next_index_ = 0;
  *whole = std::move(header_);
  whole->clear_fragment();
  whole->mutable_tensors(0)->set_data(std::move(data_));
  header_.Clear();
  data_.clear();
  *complete = true;
  return Status::Ok();
}

}  // namespace meshnet
