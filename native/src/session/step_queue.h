// The queue of the sessions that have rows for the engine; it chooses the sessions that share the next step. Not
// thread-safe: owned by a StageMachine.
#ifndef MESHNET_SESSION_STEP_QUEUE_H_
#define MESHNET_SESSION_STEP_QUEUE_H_

#include <list>
#include <memory>
#include <vector>

#include "session/session.h"

namespace meshnet {

// A session in the next step, and the number of rows that the step takes from its first pending frame.
struct PickedRows {
  std::shared_ptr<Session> session;
  std::uint32_t rows = 0;
};

class StepQueue {
 public:
  // Appends a session if it has pending rows. If it is queued already, it keeps its place.
  void Add(const std::shared_ptr<Session>& session);

  // Puts a session first in the queue, because the last step took only a part of its first frame.
  void Return(const std::shared_ptr<Session>& session);

  void Remove(const Session& session);

  // Whether a queued session is ready, as Session::IsReady defines it.
  bool HasReady() const;
  std::size_t CountReady() const;

  // Takes the sessions of the next step out of the queue, with rows of one frame each: decode rows first, in order of
  // arrival, then prompt chunks, about `prompt_rows` rows of them in all. If the engine does not mix phases, a step
  // holds decode rows or prompt rows only, and the two kinds alternate, so that neither starves. A prompt step then
  // holds one chunk or some short ones; if `prompt_rows` is below kMaxRows, it holds one piece of a chunk, or whole
  // chunks that fit. Sessions that are not ready keep their place.
  std::vector<PickedRows> Pick(const ShardFacts& facts, std::uint32_t prompt_rows, TimePoint now);

  std::size_t size() const { return waiting_.size(); }

 private:
  // Limits of the step that is being filled, and its content so far.
  struct Filling {
    std::uint32_t prompt_rows = 0;  // prompt rows that the step may still take
    bool has_prompt = false;
    bool keeps_exact_alone = false;  // a chunk of an exact route runs alone: its bits depend on the rows of a step
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
