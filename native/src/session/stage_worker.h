// Runs a loaded shard: a compute thread that owns the engine, a watchdog thread for deadlines, and a StageMachine that
// these two and RPC threads share under one lock. The lock is never held while the engine computes or a message is
// written.
#ifndef MESHNET_SESSION_STAGE_WORKER_H_
#define MESHNET_SESSION_STAGE_WORKER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/shard_engine.h"
#include "meshnet/v1/worker.pb.h"
#include "session/batching_delay.h"
#include "session/compute_turn.h"
#include "session/message_sink.h"
#include "session/stage_machine.h"
#include "session/step_observer.h"
#include "session/step_runner.h"

namespace meshnet {

class StageWorker {
 public:
  // Starts both threads. `sink` outlives the worker. `observer`, which may be null, sees every step and is closed at
  // the end.
  StageWorker(std::unique_ptr<ShardEngine> engine, std::unique_ptr<ComputeTurn> turn, MessageSink* sink,
              std::shared_ptr<StepObserver> observer = nullptr);

  // Fails the open sessions with kNotReady, waits for the running step or for the end of the wait for the compute turn
  // (at most kTurnWait), and ends both threads.
  ~StageWorker();

  StageWorker(const StageWorker&) = delete;
  StageWorker& operator=(const StageWorker&) = delete;

  // The methods below may be called from any thread. None waits for the engine unless its comment says so.
  const ShardFacts& facts() const { return engine_->facts(); }
  Result<SessionTerms> Open(const v1::SessionSpec& spec);
  // As StageMachine::Close; then waits until the engine has closed the session's sequence, at most kReleaseWait.
  bool Close(const SessionId& session, std::uint32_t epoch);
  // As StageMachine::Receive, for messages that arrived together; returns the first failure. After a failure, the rest
  // of a peer's messages is dropped, since the caller disconnects the peer.
  Status Receive(const Origin& origin, std::vector<Message>&& messages);
  void LosePeer(const std::string& fingerprint, const std::string& why);
  void AttachBridge();
  bool Knows(const std::string& fingerprint) const;
  void FillStatus(v1::StatusReply* reply) const;

  // Runs the request's rows in a sequence of their own and waits for the reply until `deadline` has passed.
  // Fails with kTooManySessions if no sequence is free, with kStepTimeout after `deadline`, with kNotReady if the shard
  // is unloaded meanwhile, and as RunProbe does.
  Result<v1::ProbeReply> Probe(const v1::ProbeRequest& request, std::chrono::milliseconds deadline);

  static constexpr std::chrono::milliseconds kReleaseWait{1000};
  // How long this worker waits for the compute turn before it starts the wait anew. This may be long, because sessions
  // whose rows wait fail sooner, at their own step deadlines.
  static constexpr std::chrono::milliseconds kTurnWait{30'000};
  // How long a step is delayed for rows of the worker that has just computed on this machine.
  static constexpr std::chrono::microseconds kBatchingDelay{1000};
  // How often an idle worker whose sessions decode checks if they still do, to tell the machine's other workers.
  static constexpr std::chrono::milliseconds kTellInterval{1000};

 private:
  struct Job {
    SequenceId sequence = 0;
    std::function<void(const Result<ShardEngine*>&)> run;  // with a status if the engine cannot run it
  };

  // The work that the compute thread takes under the lock and then does without it.
  struct Round {
    std::vector<EngineOrder> orders;
    std::vector<bool> usable;  // for each order: whether its sequence is usable afterwards
    std::vector<StepItem> items;
    std::deque<Job> jobs;
    std::vector<bool> job_usable;
  };

  void ComputeLoop();
  // Waits until there is work. Meanwhile tells the machine's other workers whether a session decodes here.
  void AwaitWork(std::unique_lock<std::mutex>* lock);
  // Delays the step for rows that are about to arrive, if BatchingDelay finds it worthwhile. The lock is held before
  // and after the call, but not during the delay.
  void DelayForBatch(std::unique_lock<std::mutex>* lock);
  // Takes all work for the engine; takes rows only if `has_turn`. Called after the wait for the compute turn, so that
  // rows which arrived during the wait share the step.
  Round TakeRound(bool has_turn);
  void RunOrders(Round* round);
  void CommitRound(Round* round);
  void WatchLoop();
  // Sends the machine's messages, wakes the threads that have work, and releases the lock. If `later`, the caller has a
  // step to run, so the watchdog writes the messages, unless one of them is for a peer.
  void Dispatch(std::unique_lock<std::mutex> lock, bool later = false);

  const std::unique_ptr<ShardEngine> engine_;
  const std::unique_ptr<ComputeTurn> turn_;
  MessageSink* const sink_;
  const std::shared_ptr<StepObserver> observer_;  // may be null

  mutable std::mutex mutex_;
  std::condition_variable work_;      // wakes the compute thread
  std::condition_variable deadline_;  // wakes the watchdog
  std::condition_variable released_;  // wakes Close
  StageMachine machine_;              // guarded by mutex_, like all members from here to watch_at_
  std::deque<Job> jobs_;
  std::uint64_t orders_done_ = 0;
  bool is_computing_ = false;
  bool flush_wanted_ = false;  // the watchdog must call Flush
  bool is_stopping_ = false;
  TimePoint step_at_;  // when the engine last began or ended a step or probes
  TimePoint watch_at_;

  StepRunner runner_;             // compute thread only
  BatchingDelay batching_delay_;  // compute thread only
  std::thread compute_thread_;
  std::thread watch_thread_;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_STAGE_WORKER_H_
