// Runs a caller's rows through the loaded shard in a sequence of their own, for the health probe and the self test.
#ifndef MESHNET_SESSION_PROBE_H_
#define MESHNET_SESSION_PROBE_H_

#include "engine/shard_engine.h"
#include "meshnet/v1/worker.pb.h"
#include "wire/status.h"

namespace meshnet {

// Compute thread only. `sequence` must be free; it is closed again. The rows run in one step, or in steps of
// `step_rows`. The reply holds the hidden rows, or on the tail the "logits" of every row, and their SHA-256.
// kWrongShape, kWrongDtype, kWrongSize, and the codes of the engine's Open and Step (kNotFinite if a row is not
// finite).
Result<v1::ProbeReply> RunProbe(ShardEngine* engine, SequenceId sequence, const v1::ProbeRequest& request);

}  // namespace meshnet

#endif  // MESHNET_SESSION_PROBE_H_
