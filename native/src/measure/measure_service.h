// The gRPC service Measure of meshnet-worker-measure: streams a shard's captures to a process that debugs or measures.
// It is served on the same socket as the service Worker.
#ifndef MESHNET_MEASURE_MEASURE_SERVICE_H_
#define MESHNET_MEASURE_MEASURE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>

#include "measure/shard_captures.h"
#include "meshnet/v1/measure.grpc.pb.h"

namespace meshnet {

// gRPC's threads call CaptureLogits and CaptureSteps, several calls at once if need be. Each call blocks its thread
// until the reader disconnects or falls behind, or the shard is unloaded.
class MeasureService : public v1::Measure::Service {
 public:
  // Makes the captures of a shard that is being loaded; later calls of CaptureLogits and CaptureSteps read them. Any
  // thread.
  std::shared_ptr<ShardCaptures> MakeCaptures();

  grpc::Status CaptureLogits(grpc::ServerContext* context, const v1::CaptureLogitsRequest* request,
                             grpc::ServerWriter<v1::CapturedLogits>* writer) override;
  grpc::Status CaptureSteps(grpc::ServerContext* context, const v1::CaptureStepsRequest* request,
                            grpc::ServerWriter<v1::CapturedStep>* writer) override;

 private:
  template <typename Item>
  grpc::Status Stream(Capture<Item> ShardCaptures::* member, grpc::ServerContext* context,
                      grpc::ServerWriter<Item>* writer);

  std::mutex mutex_;
  std::weak_ptr<ShardCaptures> captures_;  // of the newest shard, which owns them; guarded by mutex_
};

}  // namespace meshnet

#endif  // MESHNET_MEASURE_MEASURE_SERVICE_H_
