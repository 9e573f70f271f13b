// Which sessions have rows for the engine, and which of them share the next step.
// Not thread-safe: owned by a StageMachine; the compute thread waits on that machine's owner, not here.
#ifndef MESHNET_SESSION_STEP_QUEUE_H_
#define MESHNET_SESSION_STEP_QUEUE_H_

#include <list>
#include <memory>
#include <vector>

#include "session/session.h"

namespace meshnet {

// A session's part in the next step: so many rows of its frame in front.
struct PickedRows {
  std::shared_ptr<Session> session;
  std::uint32_t rows = 0;
};

class StepQueue {
 public:
  // Appends a session that has rows waiting; one that is queued already keeps its place.
  void Add(const std::shared_ptr<Session>& session);

  // Puts a session first that was picked and whose frame was not computed to its end.
  void Return(const std::shared_ptr<Session>& session);

  void Remove(const Session& session);

  // Whether some queued session is ready: it is open, in no step, and its next stage has credit.
  bool HasReady() const;
  std::size_t CountReady() const;

  // Takes the sessions of the next step out of the queue, one frame each: decode rows first, in order of arrival, then
  // prompt chunks while rows are left, about `prompt_rows` of them in all. Where the engine does not mix phases, decode
  // steps and prompt steps take turns, so that neither starves the other; a prompt step is of one chunk or of
  // some short ones, or, where prompts are cut, of one piece or of whole chunks that fit. Sessions without credit keep
  // their place.
  std::vector<PickedRows> Pick(const ShardFacts& facts, std::uint32_t prompt_rows, TimePoint now);

  std::size_t size() const { return waiting_.size(); }

 private:
  // What a step may hold, and what it holds so far.
  struct Filling {
    std::uint32_t prompt_rows = 0;  // that it may still take
    bool has_prompt = false;
    bool keeps_exact_alone = false;  // chunks whose bits depend on the rows of a step
    TimePoint now;
    std::uint32_t rows = 0;
    std::vector<PickedRows> picked;
  };

  void Take(bool prefill, std::uint32_t rows_max, std::size_t frames_max, Filling* filling);

  std::list<std::shared_ptr<Session>> waiting_;
  bool prefill_next_ = false;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_STEP_QUEUE_H_
