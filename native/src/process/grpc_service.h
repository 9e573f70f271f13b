// The gRPC service Worker, which the agent calls over its worker's Unix socket. It only translates calls; WorkerHost
// carries them out.
#ifndef MESHNET_PROCESS_GRPC_SERVICE_H_
#define MESHNET_PROCESS_GRPC_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <string>

#include "process/worker_host.h"

namespace meshnet {

struct ServiceOptions {
  std::string version_json;  // output of --version
  std::string devices_json;  // output of --list-devices
  EngineLoader load_fake;
  EngineLoader load_llama;  // empty in a build without llama.cpp
};

// Converts a status to gRPC's. The message begins with the code's name, which never changes (CodeName).
grpc::Status ToGrpc(const Status& status);

// gRPC's threads call the methods, any number at once. Load, Unload, Probe, CloseSession and WatchStatus block their
// thread.
class WorkerService : public v1::Worker::WithCallbackMethod_Bridge<v1::Worker::Service> {
 public:
  // `host` outlives the service.
  WorkerService(WorkerHost* host, ServiceOptions options);

  // Ends the WatchStatus calls that run; later ones end after their first message.
  void Stop();

  grpc::Status Describe(grpc::ServerContext* context, const v1::DescribeRequest* request,
                        v1::DescribeReply* reply) override;
  grpc::Status Load(grpc::ServerContext* context, const v1::LoadRequest* request,
                    grpc::ServerWriter<v1::LoadProgress>* writer) override;
  grpc::Status Unload(grpc::ServerContext* context, const v1::UnloadRequest* request, v1::UnloadReply* reply) override;
  grpc::Status OpenSession(grpc::ServerContext* context, const v1::OpenSessionRequest* request,
                           v1::OpenSessionReply* reply) override;
  grpc::Status CloseSession(grpc::ServerContext* context, const v1::CloseSessionRequest* request,
                            v1::CloseSessionReply* reply) override;
  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest* request, v1::StatusReply* reply) override;
  grpc::Status WatchStatus(grpc::ServerContext* context, const v1::WatchStatusRequest* request,
                           grpc::ServerWriter<v1::StatusReply>* writer) override;
  grpc::Status Probe(grpc::ServerContext* context, const v1::ProbeRequest* request, v1::ProbeReply* reply) override;
  grpc::ServerBidiReactor<v1::BridgeBatch, v1::BridgeBatch>* Bridge(grpc::CallbackServerContext* context) override;

 private:
  void FillStatus(v1::StatusReply* reply) const;

  WorkerHost* const host_;
  const ServiceOptions options_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool is_stopping_ = false;
};

}  // namespace meshnet

#endif  // MESHNET_PROCESS_GRPC_SERVICE_H_
