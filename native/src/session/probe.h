// Runs the rows of a ProbeRequest through the loaded shard in a sequence of their own: the health probe or the self
// test.
#ifndef MESHNET_SESSION_PROBE_H_
#define MESHNET_SESSION_PROBE_H_

#include "engine/shard_engine.h"
#include "meshnet/v1/worker.pb.h"
#include "wire/status.h"

namespace meshnet {

// Computes the request's rows in `sequence`, which must be free, and closes it again. Compute thread only. The rows run
// in one step, or in steps of `step_rows`. The outputs are the hidden rows, or on the tail the logits of every row. The
// reply holds the outputs' SHA-256 and, if the request has `want_outputs`, the outputs. If it has not, the tail
// computes only the logits of each step's last row. Fails with kWrongShape, kWrongDtype or kWrongSize if the rows do
// not fit the shard, and as the engine's Open and Step do (kNotFinite if a row is not finite).
Result<v1::ProbeReply> RunProbe(ShardEngine* engine, SequenceId sequence, const v1::ProbeRequest& request);

}  // namespace meshnet

#endif  // MESHNET_SESSION_PROBE_H_
