// The Measure service of meshnet-worker-measure for a debugging reader, on the socket of its Worker service.
#ifndef MESHNET_MEASURE_MEASURE_SERVICE_H_
#define MESHNET_MEASURE_MEASURE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>

#include "measure/shard_captures.h"
#include "meshnet/v1/measure.grpc.pb.h"

namespace meshnet {

// gRPC's threads call the methods, any number at once. Both are streams that block until their reader disconnects.
class MeasureService : public v1::Measure::Service {
 public:
  // Makes the captures of a shard that is being loaded; later calls read from them. Any thread.
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
