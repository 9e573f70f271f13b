// Where messages leave the worker.
#ifndef MESHNET_SESSION_MESSAGE_SINK_H_
#define MESHNET_SESSION_MESSAGE_SINK_H_

#include "session/stage_machine.h"

namespace meshnet {

// Any thread; nothing here blocks. Order is kept per destination: messages leave in the order of Enqueue.
class MessageSink {
 public:
  virtual ~MessageSink() = default;

  // Appends a message. May be called under the caller's lock: starts no I/O and takes only its own lock.
  virtual void Enqueue(Outgoing&& outgoing) = 0;

  // Starts writing what was appended. Called without locks.
  virtual void Flush() = 0;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_MESSAGE_SINK_H_
