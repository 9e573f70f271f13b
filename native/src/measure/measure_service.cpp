#include "measure/measure_service.h"

#include <chrono>

#include "process/grpc_service.h"

namespace meshnet {
namespace {

// How often a waiting stream checks that its client is still connected.
constexpr std::chrono::milliseconds kWatchSlice{500};

}  // namespace

std::shared_ptr<ShardCaptures> MeasureService::MakeCaptures() {
  auto captures = std::make_shared<ShardCaptures>();
  const std::lock_guard lock(mutex_);
  captures_ = captures;
  return captures;
}

// Sends the items of one capture of the loaded shard until the caller disconnects or falls behind, or the shard is
// unloaded.
template <typename Item>
grpc::Status MeasureService::Stream(Capture<Item> ShardCaptures::* member, grpc::ServerContext* context,
                                    grpc::ServerWriter<Item>* writer) {
  std::shared_ptr<ShardCaptures> captures;
  {
    // Only the captures are held, not the shard, so that the shard can be unloaded meanwhile.
    const std::lock_guard lock(mutex_);
    captures = captures_.lock();
  }
  if (captures == nullptr) return ToGrpc({Code::kNotReady, "no shard is loaded"});
  Capture<Item>& capture = (*captures).*member;
  const Status begun = capture.Begin();
  if (!begun.ok()) return ToGrpc(begun);
  writer->SendInitialMetadata();  // tells the client that the capture has begun
  Status status;
  while (status.ok() && !context->IsCancelled()) {
    const Result<std::optional<Item>> item = capture.Take(std::chrono::steady_clock::now() + kWatchSlice);
    status = item.status();
    if (status.ok() && item.value().has_value() && !writer->Write(*item.value())) break;
  }
  capture.End();
  return ToGrpc(status);
}

grpc::Status MeasureService::CaptureLogits(grpc::ServerContext* context, const v1::CaptureLogitsRequest* /*request*/,
                                           grpc::ServerWriter<v1::CapturedLogits>* writer) {
  return Stream(&ShardCaptures::logits, context, writer);
}

grpc::Status MeasureService::CaptureSteps(grpc::ServerContext* context, const v1::CaptureStepsRequest* /*request*/,
                                          grpc::ServerWriter<v1::CapturedStep>* writer) {
  return Stream(&ShardCaptures::steps, context, writer);
}

}  // namespace meshnet
