// A loaded shard at work: one compute thread that owns the engine, one watchdog thread for deadlines, and a lock around
// the StageMachine, which RPC threads and both of them share. The lock is never held while the engine computes or a
// message is written.
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
  // Starts both threads. `sink` outlives the worker. `observer` sees every step and is closed at the end; may be null.
  StageWorker(std::unique_ptr<ShardEngine> engine, std::unique_ptr<ComputeTurn> turn, MessageSink* sink,
              std::shared_ptr<StepObserver> observer = nullptr);

  // Tells sessions that are still open kNotReady, waits for the running step or its wait for the turn (at most
  // kTurnWait), and ends both threads.
  ~StageWorker();

  StageWorker(const StageWorker&) = delete;
  StageWorker& operator=(const StageWorker&) = delete;

  // The methods below may be called from any thread. None waits for the engine, except as said.
  const ShardFacts& facts() const { return engine_->facts(); }
  Result<SessionTerms> Open(const v1::SessionSpec& spec);
  // Waits until the engine has closed the session's sequence, at most kReleaseWait.
  bool Close(const SessionId& session, std::uint32_t epoch);
  // As StageMachine::Receive, for messages that arrived together; returns the first failure. If a peer's message fails,
  // the rest is dropped, since the peer is disconnected.
  Status Receive(const Origin& origin, std::vector<Message>&& messages);
  void LosePeer(const std::string& fingerprint, const std::string& why);
  void AttachBridge();
  bool Knows(const std::string& fingerprint) const;
  void FillStatus(v1::StatusReply* reply) const;

  // Runs rows through a private sequence and waits for them. kTooManySessions, kStepTimeout, and the codes of Step. The
  // reply holds the outputs and their digest.
  Result<v1::ProbeReply> Probe(const v1::ProbeRequest& request, std::chrono::milliseconds deadline);

  static constexpr std::chrono::milliseconds kReleaseWait{1000};
  // How long this worker waits for the compute turn before it asks again. This may be long, because waiting sessions
  // fail sooner by their own step deadlines.
  static constexpr std::chrono::milliseconds kTurnWait{30'000};
  // How long a step is delayed for rows of the stage that has just computed on this machine.
  static constexpr std::chrono::microseconds kBatchingDelay{1000};
  // How soon the machine's other workers hear that no session decodes here any more.
  static constexpr std::chrono::milliseconds kTellInterval{1000};

 private:
  struct Job {
    SequenceId sequence = 0;
    std::function<void(const Result<ShardEngine*>&)> run;  // a status: answer without the engine
  };

  // Orders and rows that the engine works on between two holds of the lock.
  struct Round {
    std::vector<EngineOrder> orders;
    std::vector<bool> usable;  // after each order
    std::vector<StepItem> items;
    std::deque<Job> jobs;
    std::vector<bool> job_usable;
  };

  void ComputeLoop();
  // Waits until there is work. Meanwhile tells the machine's other workers whether a session decodes here.
  void AwaitWork(std::unique_lock<std::mutex>* lock);
  // Delays the step for rows that are about to arrive, if such delays have paid. Takes the lock and leaves it taken.
  void DelayForBatch(std::unique_lock<std::mutex>* lock);
  // Takes all work for the engine once this worker has the turn. Rows are taken last, so that rows which arrived during
  // the wait share the step.
  Round TakeRound(bool has_turn);
  void RunOrders(Round* round);
  void CommitRound(Round* round);
  void WatchLoop();
  // Sends messages and wakes the threads that have work. Takes the lock's ownership and ends it. If `later`, the caller
  // has a step to run, so the watchdog writes messages that no other stage waits for.
  void Dispatch(std::unique_lock<std::mutex> lock, bool later = false);

  const std::unique_ptr<ShardEngine> engine_;
  const std::unique_ptr<ComputeTurn> turn_;
  MessageSink* const sink_;
  const std::shared_ptr<StepObserver> observer_;  // or null

  mutable std::mutex mutex_;
  std::condition_variable work_;      // for the compute thread
  std::condition_variable deadline_;  // for the watchdog
  std::condition_variable released_;  // for Close
  StageMachine machine_;              // guarded by mutex_, as all below
  std::deque<Job> jobs_;
  std::uint64_t orders_done_ = 0;
  bool is_computing_ = false;
  bool flush_wanted_ = false;  // of the watchdog
  bool is_stopping_ = false;
  TimePoint step_at_;  // the engine began or ended something
  TimePoint watch_at_;

  StepRunner runner_;             // compute thread only
  BatchingDelay batching_delay_;  // compute thread only
  std::thread compute_thread_;
  std::thread watch_thread_;
};

}  // namespace meshnet

#endif  // MESHNET_SESSION_STAGE_WORKER_H_
