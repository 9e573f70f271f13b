// Sessions that have rows for the engine, and the choice of those that share the next step. Not thread-safe: owned by a
// StageMachine; the compute thread waits on that machine's owner.
#ifndef MESHNET_SESSION_STEP_QUEUE_H_
#define MESHNET_SESSION_STEP_QUEUE_H_

#include <list>
#include <memory>
#include <vector>

#include "session/session.h"

namespace meshnet {

// A session's part in the next step: a number of rows of its frame in front.
struct PickedRows {
  std::shared_ptr<Session> session;
  std::uint32_t rows = 0;
};

class StepQueue {
 public:
  // Appends a session that has rows waiting; if it is queued already it keeps its place.
  void Add(const std::shared_ptr<Session>& session);

  // Puts a picked session first if its frame was not computed to its end.
  void Return(const std::shared_ptr<Session>& session);

  void Remove(const Session& session);

  // Whether a queued session is ready: it is open, in no step, and its next stage has credit.
  bool HasReady() const;
  std::size_t CountReady() const;

  // Takes the sessions of the next step out of the queue, one frame each: decode rows first, in order of arrival, then
  // prompt chunks while there is room, about `prompt_rows` rows of them in all. If the engine does not mix phases,
  // decode steps and prompt steps take turns, so that neither starves the other. A prompt step holds one chunk or some
  // short ones; if prompts are cut, it holds one piece, or whole chunks that fit. Sessions without credit keep their
  // place.
  std::vector<PickedRows> Pick(const ShardFacts& facts, std::uint32_t prompt_rows, TimePoint now);

  std::size_t size() const { return waiting_.size(); }

 private:
  // Limits of the step being filled, and its content so far.
  struct Filling {
    std::uint32_t prompt_rows = 0;  // prompt rows that it may still take
    bool has_prompt = false;
    bool keeps_exact_alone = false;  // chunks of exact routes run alone, since their bits depend on the rows of a step
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
