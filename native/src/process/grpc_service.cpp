#include "process/grpc_service.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace meshnet {
namespace {

constexpr std::uint32_t kWatchIntervalMinMs = 100;
constexpr std::uint32_t kWatchIntervalMaxMs = 60'000;
// How often a waiting stream checks that its client is still connected.
constexpr std::chrono::milliseconds kWatchSlice{500};
constexpr std::chrono::milliseconds kProbeDeadline{30'000};
// Longer than kProbeDeadline, since a self test may compute its rows one by one.
constexpr std::chrono::milliseconds kSelfTestDeadline{120'000};

LoadPlan ToPlan(const v1::LoadRequest& request) {
  LoadPlan plan;
  plan.layers = {request.layers().layer_begin(), request.layers().layer_end()};
  plan.context_length = request.context_length();
  plan.kv_cells = request.kv_cells();
  plan.max_sessions = request.max_sessions();
  plan.threads = request.threads();
  plan.ubatch_rows = request.ubatch();
  plan.flash_attention = request.flash_attention();
  plan.artifact_digest = request.artifact_digest();
  plan.gguf_path = request.gguf_path();
  plan.fake_layers = request.fake().n_layers();
  plan.fake_width = request.fake().width();
  plan.fake_step_us = request.fake().step_us();
  plan.fake_step_fixed_us = request.fake().step_fixed_us();
  plan.profile = request.profile();
  plan.keep_rewind_states = request.keep_rewind_states();
  return plan;
}

// Resident memory of this process. Source: proc(5), statm's second field, in pages.
std::uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;
  switch (status.code()) {
    case Code::kNotReady:
      code = grpc::StatusCode::FAILED_PRECONDITION;
      break;
    case Code::kFileMissing:
      code = grpc::StatusCode::NOT_FOUND;
      break;
    case Code::kUnsupportedArchitecture:
      code = grpc::StatusCode::UNIMPLEMENTED;
      break;
    case Code::kLayersOutOfRange:
      code = grpc::StatusCode::OUT_OF_RANGE;
      break;
    case Code::kTooManySessions:
    case Code::kKvExhausted:
      code = grpc::StatusCode::RESOURCE_EXHAUSTED;
      break;
    case Code::kStepTimeout:
      code = grpc::StatusCode::DEADLINE_EXCEEDED;
      break;
    case Code::kCancelled:
      code = grpc::StatusCode::CANCELLED;
      break;
    case Code::kEngineFailed:
    case Code::kLoadFailed:
      code = grpc::StatusCode::INTERNAL;
      break;
    default:
      break;
  }
  return {code, std::string(CodeName(status.code())) + ": " + status.message()};
}

WorkerService::WorkerService(WorkerHost* host, ServiceOptions options) : host_(host), options_(std::move(options)) {}

void WorkerService::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stopping_.notify_all();
}

grpc::Status WorkerService::Describe(grpc::ServerContext* /*context*/, const v1::DescribeRequest* /*request*/,
                                     v1::DescribeReply* reply) {
  reply->set_version_json(options_.version_json);
  reply->set_devices_json(options_.devices_json);
  reply->set_link_address(host_->links().address());
  reply->set_link_fingerprint(host_->links().fingerprint());
  return grpc::Status::OK;
}

grpc::Status WorkerService::Load(grpc::ServerContext* context, const v1::LoadRequest* request,
                                 grpc::ServerWriter<v1::LoadProgress>* writer) {
  const bool is_fake = request->engine() == v1::ENGINE_KIND_FAKE;
  if (!is_fake && request->engine() != v1::ENGINE_KIND_LLAMA) {
    return ToGrpc({Code::kInvalidArgument, "the request names an unknown engine"});
  }
  const EngineLoader& loader = is_fake ? options_.load_fake : options_.load_llama;
  if (!loader) return ToGrpc({Code::kInvalidArgument, "this build has no such engine"});
  float reported = -1.0f;
  const LoadObserver observer = [&](float fraction) {
    // At most one message for each percent of progress.
    if (fraction >= reported + 0.01f) {
      reported = fraction;
      v1::LoadProgress progress;
      progress.set_state(v1::LoadProgress::STATE_LOADING);
      progress.set_fraction(fraction);
      writer->Write(progress);
    }
    return !context->IsCancelled();
  };
  const meshnet::Status status = host_->Load(loader, ToPlan(*request), request->turn_path(), observer);
  if (!status.ok()) return ToGrpc(status);
  const std::shared_ptr<StageWorker> stage = host_->stage();
  if (stage == nullptr) return ToGrpc({Code::kCancelled, "the shard was unloaded while it was loaded"});
  v1::LoadProgress ready;
  ready.set_state(v1::LoadProgress::STATE_READY);
  ready.set_fraction(1.0f);
  *ready.mutable_contract() = stage->facts().contract;
  ready.set_weights_bytes(stage->facts().weights_bytes);
  ready.set_nextn_bytes(stage->facts().nextn_bytes);
  ready.set_kv_bytes(stage->facts().kv_bytes);
  ready.set_compute_bytes(stage->facts().compute_bytes);
  writer->Write(ready);
  return grpc::Status::OK;
}

grpc::Status WorkerService::Unload(grpc::ServerContext* /*context*/, const v1::UnloadRequest* /*request*/,
                                   v1::UnloadReply* /*reply*/) {
  host_->Unload();
  return grpc::Status::OK;
}

grpc::Status WorkerService::OpenSession(grpc::ServerContext* /*context*/, const v1::OpenSessionRequest* request,
                                        v1::OpenSessionReply* reply) {
  const meshnet::Status status = host_->OpenSession(request->spec());
  reply->set_accepted(status.ok());
  if (!status.ok()) {
    reply->set_code(std::string(CodeName(status.code())));
    reply->set_message(status.message());
  }
  if (const std::shared_ptr<StageWorker> stage = host_->stage()) *reply->mutable_contract() = stage->facts().contract;
  return grpc::Status::OK;
}

grpc::Status WorkerService::CloseSession(grpc::ServerContext* /*context*/, const v1::CloseSessionRequest* request,
                                         v1::CloseSessionReply* reply) {
  if (request->session().size() != kSessionIdBytes) {
    return ToGrpc({Code::kMalformed, "the session's id does not have 16 bytes"});
  }
  if (const std::shared_ptr<StageWorker> stage = host_->stage()) {
    reply->set_was_open(stage->Close(ToSessionId(request->session()), request->epoch()));
  }
  return grpc::Status::OK;
}

void WorkerService::FillStatus(v1::StatusReply* reply) const {
  if (const std::shared_ptr<StageWorker> stage = host_->stage()) stage->FillStatus(reply);
  reply->set_resident_bytes(ResidentBytes());
}

grpc::Status WorkerService::Status(grpc::ServerContext* /*context*/, const v1::StatusRequest* /*request*/,
                                   v1::StatusReply* reply) {
  FillStatus(reply);
  return grpc::Status::OK;
}

grpc::Status WorkerService::WatchStatus(grpc::ServerContext* context, const v1::WatchStatusRequest* request,
                                        grpc::ServerWriter<v1::StatusReply>* writer) {
  const std::chrono::milliseconds interval(
      std::clamp(request->interval_ms(), kWatchIntervalMinMs, kWatchIntervalMaxMs));
  for (;;) {
    v1::StatusReply reply;
    FillStatus(&reply);
    if (!writer->Write(reply)) return grpc::Status::OK;
    const TimePoint next = std::chrono::steady_clock::now() + interval;
    while (std::chrono::steady_clock::now() < next) {
      if (context->IsCancelled()) return grpc::Status::OK;
      std::unique_lock lock(mutex_);
      const TimePoint slice = std::min(next, std::chrono::steady_clock::now() + kWatchSlice);
      if (stopping_.wait_until(lock, slice, [this] { return is_stopping_; })) return grpc::Status::OK;
    }
  }
}

grpc::Status WorkerService::Probe(grpc::ServerContext* /*context*/, const v1::ProbeRequest* request,
                                  v1::ProbeReply* reply) {
  const std::shared_ptr<StageWorker> stage = host_->stage();
  if (stage == nullptr) return ToGrpc({Code::kNotReady, "no shard is loaded"});
  Result<v1::ProbeReply> result = stage->Probe(*request, request->want_outputs() ? kSelfTestDeadline : kProbeDeadline);
  if (!result.ok()) return ToGrpc(result.status());
  *reply = std::move(result.value());
  return grpc::Status::OK;
}

grpc::ServerBidiReactor<v1::BridgeBatch, v1::BridgeBatch>* WorkerService::Bridge(
    grpc::CallbackServerContext* /*context*/) {
  return host_->AttachBridge().get();
}

}  // namespace meshnet
