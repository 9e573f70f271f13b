// One stage's part in one Route Session: its edges, the rows that wait for the engine, and on the tail its generation.
// Not thread-safe: guarded by the lock of the StageMachine that holds it. `sampler` alone belongs to the compute
// thread. Shared ownership, because a step may still hold a session that was closed meanwhile.
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

// A frame that waits for the engine, or the rest of a frame whose first rows were taken.
struct PendingRows {
  v1::Frame frame;
  TimePoint received_at;
  TimePoint ready_at;     // as received_at; if it is the rest of a frame, when the piece before it was taken
  bool is_piece = false;  // taken from a frame of which more rows are left
};

// A drawn token that waits for the token window or the ring's credit.
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

  // Checks a whole frame against the contract, the route and this stage's length, in the order of docs/wire.md after
  // the sequence, and queues it. If it fails, the session is over.
  Status Queue(v1::Frame&& frame, TimePoint now);

  // Bytes of the hidden rows of a frame on the seam after this stage; 0 on the tail.
  std::uint64_t OutputBytes(const v1::Frame& frame) const;

  // Whether the frame in front may run now: it exists, no step has the session, and the next stage has credit.
  bool IsReady() const;

  // Rows that a step takes of the frame in front. A prompt chunk is cut if it has more than `prompt_rows`, unless half
  // of its step's time has passed or the route is exact: then bits depend on the rows of a step.
  std::uint32_t RowsToTake(std::uint32_t prompt_rows, TimePoint now) const;

  // Takes the first `rows` rows of the frame in front for a step; the rest stays in front.
  PendingRows TakeFront(std::uint32_t rows, TimePoint now);

  // Whether the session decodes and its next row is yet to come: from the stage before, or round the ring.
  bool AwaitsToken() const;

  // Rows were sent to the next stage. On the head of a route of several stages they may be those that must cause a
  // token.
  void NoteHandedOn(const v1::Frame& frame);
  // Since when the next stage has acknowledged such rows and no token has come; none if no token is owed, or while that
  // stage still owes its acknowledgement.
  std::optional<TimePoint> token_owed_since() const;
  // How long the token may take from then on. Source: docs/wire.md, Time.
  std::chrono::milliseconds token_patience() const;

  bool is_open = true;
  bool in_step = false;
  std::deque<PendingRows> pending;
  std::map<Edge, ReceivingEdge> receiving;
  std::optional<SendingEdge> downstream;  // none on the tail
  std::optional<SendingEdge> ring;        // tail of a route of several stages
  std::optional<Generation> generation;   // tail
  std::optional<HeldToken> held_token;    // tail
  std::optional<Sampler> sampler;         // tail; compute thread only
  std::optional<TimePoint> gone_at;       // a neighbour has said that it closed the session
  std::uint32_t gone_stage = 0;           // which one
  std::uint64_t length = 0;               // rows that the engine has computed
  bool prompt_done = false;               // the prompt's last chunk was queued
  TimePoint heard_at;
  std::optional<TimePoint> decoded_at;  // the last step that a token follows
  bool is_streaming = false;            // one of its tokens has come back as a row

 private:
  Status CheckRoute(const v1::Frame& frame) const;
  Status CheckPrompt(const v1::Frame& frame) const;
  Status CheckContract(const v1::Frame& frame) const;
  Status CheckPosition(const v1::Frame& frame) const;

  const SessionTerms terms_;
  const SequenceId sequence_;
  const ShardFacts& facts_;
  std::uint64_t queued_length_ = 0;  // length once everything pending is computed
  // Head: frames, the one that must cause a token included, that may be in flight at each seam; 0 where none is owed.
  std::uint32_t token_frames_ = 0;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_SESSION_H_
