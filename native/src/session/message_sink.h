// The interface through which a StageWorker sends messages to peers and over the agent's bridge.
#ifndef MESHNET_SESSION_MESSAGE_SINK_H_
#define MESHNET_SESSION_MESSAGE_SINK_H_

#include "session/stage_machine.h"

namespace meshnet {

// Methods may be called from any thread, and none blocks. Messages to one destination leave in the order of Enqueue.
class MessageSink {
 public:
  virtual ~MessageSink() = default;

  // Appends a message. May be called while the caller holds a lock: starts no I/O and takes only its own lock.
  virtual void Enqueue(Outgoing&& outgoing) = 0;

  // Starts to write the appended messages. Call without locks.
  virtual void Flush() = 0;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_MESSAGE_SINK_H_
