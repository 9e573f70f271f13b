// Rows of the caller's through the loaded shard in a sequence of their own: the health probe and the self test.
#ifndef MESHNET_SESSION_PROBE_H_
#define MESHNET_SESSION_PROBE_H_

#include "engine/shard_engine.h"
#include "meshnet/v1/worker.pb.h"
#include "wire/status.h"

namespace meshnet {

// Compute thread only. The sequence is free and is closed again. All rows in one step, or in steps of `step_rows`.
// Outputs: hidden rows, or on the tail "logits" of every row; with their SHA-256. kWrongShape, kWrongDtype, kWrongSize,
// and what the engine's Open and Step refuse (kNotFinite for rows that are not).
Result<v1::ProbeReply> RunProbe(ShardEngine* engine, SequenceId sequence, const v1::ProbeRequest& request);

}  // namespace meshnet

#endif  // MESHNET_SESSION_PROBE_H_
