// Which sessions have rows for the engine, and which of them share the next step.
// Not thread-safe: owned by a StageMachine; the compute thread waits on that machine's owner, not here.
#ifndef MESHNET_STEP_QUEUE_H_
#define MESHNET_STEP_QUEUE_H_

#include <list>
#include <memory>
#include <vector>

#include "session.h"

namespace meshnet {

class StepQueue {
 public:
  // Appends a session that has rows waiting; one that is queued already keeps its place.
  void Add(const std::shared_ptr<Session>& session);

  void Remove(const Session& session);

  // Whether some queued session is ready: it is open, in no step, and its next stage has credit.
  bool HasReady() const;

  // Takes the sessions of the next step out of the queue, one frame each: decode rows first, in order of arrival, then
  // prompt chunks while rows are left. Where the engine does not mix phases, decode steps and prompt steps of one
  // chunk take turns, so that neither starves the other. Sessions without credit keep their place.
  std::vector<std::shared_ptr<Session>> Pick(const ShardFacts& facts);

  std::size_t size() const { return waiting_.size(); }

 private:
  using Picked = std::vector<std::shared_ptr<Session>>;

  void Take(bool prefill, std::uint32_t rows_max, std::size_t frames_max, std::uint32_t* rows, Picked* picked);

  std::list<std::shared_ptr<Session>> waiting_;
  bool prefill_next_ = false;
};

}  // namespace meshnet

#endif  // MESHNET_STEP_QUEUE_H_
