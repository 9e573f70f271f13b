// One Route Session on this stage: its edges, the rows that wait for the engine and, on the tail, its generation. Not
// thread-safe: StageWorker's lock guards it, except `sampler`, which only the compute thread uses. Sessions have shared
// ownership, because a running step may still hold a session that was closed.
#ifndef MESHNET_SESSION_SESSION_H_
#define MESHNET_SESSION_SESSION_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "engine/sampler.h"
#include "engine/shard_engine.h"
#include "meshnet/v1/frame.pb.h"
#include "session/edge.h"
#include "session/generation.h"
#include "session/session_terms.h"
#include "wire/identity.h"

namespace meshnet {

// The rows of a frame, or of a part of it, that wait for the engine or were taken for a step.
struct PendingRows {
  v1::Frame frame;
  TimePoint received_at;
  TimePoint ready_at;     // received_at, or when a step took the part before this one
  bool is_piece = false;  // later rows of the same frame were left in the queue
};

// A sampled token that the tail cannot send to the head yet, because the token window or the ring's window is full.
struct HeldToken {
  std::uint32_t token_id = 0;
  std::uint64_t position = 0;
};

class Session {
 public:
  Session(SessionTerms terms, SequenceId sequence, const ShardFacts& facts, TimePoint now);

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionTerms& terms() const { return terms_; }
  SequenceId sequence() const { return sequence_; }

  // Queues a whole frame for the engine after the checks that docs/wire.md lists after the check of its seq: route,
  // contract, position, finite values. If the status is not ok, the caller must end the session.
  Status Queue(v1::Frame&& frame, TimePoint now);

  // Bytes that a frame's rows will take on the seam to the next stage; 0 on the tail.
  std::uint64_t OutputBytes(const v1::Frame& frame) const;

  // Whether a step may take rows of the first pending frame now: there is one, the session is open and in no step, no
  // neighbour has closed it, and the next stage has credit.
  bool IsReady() const;

  // Number of rows that the next step takes from the first pending frame. A prompt chunk of more than `prompt_rows`
  // rows may be cut (PieceRows), unless it has waited for half of the step deadline, or the route is exact: there the
  // result's bits depend on the number of rows in a step.
  std::uint32_t RowsToTake(std::uint32_t prompt_rows, TimePoint now) const;

  // Takes the first `rows` rows of the first pending frame for a step; the frame's other rows stay first in the queue.
  PendingRows TakeFront(std::uint32_t rows, TimePoint now);

  // Whether the session is decoding and its next row has not arrived yet from the stage before or over the ring.
  bool AwaitsToken() const;

  // Call after rows were sent to the next stage. On the head of a route of several stages, notes if a token is owed for
  // them.
  void NoteHandedOn(const v1::Frame& frame);
  // On the head: the time at which the next stage acknowledged rows for which a token is owed. Empty if no token is
  // owed, or if the acknowledgement is still missing.
  std::optional<TimePoint> token_owed_since() const;
  // How long after token_owed_since the token may arrive before the session fails. Source: docs/wire.md, Time.
  std::chrono::milliseconds token_patience() const;

  bool is_open = true;
  bool in_step = false;
  std::deque<PendingRows> pending;
  std::map<Edge, ReceivingEdge> receiving;
  std::optional<SendingEdge> downstream;  // to the next stage; none on the tail
  std::optional<SendingEdge> ring;        // to the head; only on the tail of a route of several stages
  std::optional<Generation> generation;   // only on the tail
  std::optional<HeldToken> held_token;    // only on the tail
  std::optional<Sampler> sampler;         // only on the tail; only for the compute thread
  std::optional<TimePoint> gone_at;       // when a neighbour said that it had closed the session
  std::uint32_t gone_stage = 0;           // that neighbour's stage
  std::uint64_t length = 0;               // rows that the engine has computed
  bool prompt_done = false;               // the prompt's last chunk was queued
  TimePoint heard_at;                     // time of the last message or step, or of the opening
  std::optional<TimePoint> decoded_at;    // end of the last step with rows that cause a token
  bool is_streaming = false;              // this stage has computed a decode row of the session

 private:
  Status CheckRoute(const v1::Frame& frame) const;
  Status CheckPrompt(const v1::Frame& frame) const;
  Status CheckContract(const v1::Frame& frame) const;
  Status CheckPosition(const v1::Frame& frame) const;

  const SessionTerms terms_;
  const SequenceId sequence_;
  const ShardFacts& facts_;
  std::uint64_t queued_length_ = 0;  // value of `length` once all pending rows are computed
  // On the head: the number of frames that may be in flight on each seam while a token is owed, including the frame
  // that causes the token; 0 if no token is owed.
  std::uint32_t token_frames_ = 0;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_SESSION_H_
