#include "session/step_runner.h"

#include <chrono>

#include "session/step_observer.h"
#include "wire/seam_codec.h"

namespace meshnet {
namespace {

std::uint32_t Microseconds(TimePoint::duration duration) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

std::uint32_t MicrosecondsSince(TimePoint start) { return Microseconds(std::chrono::steady_clock::now() - start); }

bool WantsLogits(const v1::Frame& frame) { return frame.phase() != v1::PHASE_PREFILL || frame.prompt_end(); }

}  // namespace

void StepRunner::Run(std::vector<StepItem>* items) {
  const TimePoint gather_at = std::chrono::steady_clock::now();
  Gather(items);
  const std::uint32_t gather_us = MicrosecondsSince(gather_at) - rewind_us_;
  const TimePoint step_at = std::chrono::steady_clock::now();
  const Status status = engine_->Step(slices_, &results_);
  const TimePoint step_end_at = std::chrono::steady_clock::now();
  const std::uint32_t compute_us = rewind_us_ + Microseconds(step_end_at - step_at);
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    StepItem& item = (*items)[slice_items_[i]];
    item.begin_at = step_at;
    item.end_at = step_end_at;
    const TimePoint deliver_at = std::chrono::steady_clock::now();
    if (status.ok()) {
      Deliver(results_[i], &item);
    } else {
      item.status = status;
    }
    item.delivered_at = std::chrono::steady_clock::now();
    item.compute_us = compute_us;
    item.codec_us = gather_us + Microseconds(item.delivered_at - deliver_at);
  }
}

void StepRunner::Gather(std::vector<StepItem>* items) {
  const ShardFacts& facts = engine_->facts();
  slices_.clear();
  slice_items_.clear();
  std::size_t floats = 0;
  for (const StepItem& item : *items) floats += std::size_t{item.rows.frame.rows()} * facts.input_width;
  hidden_.resize(floats);
  logits_rows_.resize(items->size());
  rewind_us_ = 0;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < items->size(); ++i) {
    StepItem& item = (*items)[i];
    const v1::Frame& frame = item.rows.frame;
    if (frame.rewind()) {
      const TimePoint rewind_at = std::chrono::steady_clock::now();
      item.status = engine_->Rewind(item.session->sequence(), frame.position());
      rewind_us_ += MicrosecondsSince(rewind_at);
    }
    if (!item.status.ok()) continue;
    StepSlice slice;
    slice.sequence = item.session->sequence();
    slice.position = frame.position();
    slice.rows = frame.rows();
    slice.token_ids = {frame.token_ids().data(), static_cast<std::size_t>(frame.token_ids_size())};
    if (facts.input_width > 0) {
      const std::span<float> hidden = std::span(hidden_).subspan(offset, std::size_t{slice.rows} * facts.input_width);
      UnpackRows(frame.tensors(0), hidden);
      slice.hidden = hidden;
      offset += hidden.size();
    }
    if (facts.is_tail() && WantsLogits(frame)) {
      logits_rows_[i] = frame.rows() - 1;
      slice.logits_rows = {&logits_rows_[i], 1};
    }
    slices_.push_back(slice);
    slice_items_.push_back(i);
  }
}

void StepRunner::Deliver(const StepResult& result, StepItem* item) {
  item->status = result.status;
  if (!item->status.ok()) return;
  const v1::Frame& frame = item->rows.frame;
  if (!result.hidden.empty()) {
    const SessionTerms& terms = item->session->terms();
    item->status = PackRows(terms.CodecOf(terms.downstream()), kHiddenTensor, frame.rows(), result.hidden,
                            &item->hidden.emplace());
    if (!item->status.ok()) return;
  }
  if (!result.logits.empty()) {
    const std::uint64_t position = frame.position() + frame.rows();
    if (observer_ != nullptr) observer_->AddLogits(item->session->terms(), position, result.logits);
    item->token = item->session->sampler->Sample(result.logits, position);
  }
}

}  // namespace meshnet
