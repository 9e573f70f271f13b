#include "session/stage_worker.h"

#include <future>

#include "session/probe.h"
#include "wire/digest.h"

namespace meshnet {
namespace {

TimePoint Now() { return std::chrono::steady_clock::now(); }

std::uint64_t MillisecondsSince(TimePoint start) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(Now() - start).count());
}

}  // namespace

StageWorker::StageWorker(std::unique_ptr<ShardEngine> engine, std::unique_ptr<ComputeTurn> turn, MessageSink* sink,
                         std::shared_ptr<StepObserver> observer)
    : engine_(std::move(engine)),
      turn_(std::move(turn)),
      sink_(sink),
      observer_(std::move(observer)),
      machine_(engine_->facts()),
      step_at_(Now()),
      watch_at_(Now()),
      runner_(engine_.get(), observer_.get()) {
  compute_thread_ = std::thread([this] { ComputeLoop(); });
  watch_thread_ = std::thread([this] { WatchLoop(); });
}

StageWorker::~StageWorker() {
  if (observer_ != nullptr) observer_->Close();
  {
    std::unique_lock lock(mutex_);
    machine_.FailAll({Code::kNotReady, "the shard is being unloaded"}, Now());
    is_stopping_ = true;
    Dispatch(std::move(lock));
  }
  work_.notify_all();
  deadline_.notify_all();
  compute_thread_.join();
  watch_thread_.join();
}

void StageWorker::Dispatch(std::unique_lock<std::mutex> lock, bool later) {
  std::vector<Outgoing> outgoing = machine_.TakeOutgoing();
  // Messages are enqueued under the lock, so that two threads cannot swap the order of a session's frames.
  bool is_for_peer = false;
  for (Outgoing& message : outgoing) {
    is_for_peer = is_for_peer || message.destination.carrier == Carrier::kPeer;
    sink_->Enqueue(std::move(message));
  }
  const bool has_work = machine_.HasWork() && !is_computing_;
  const TimePoint nearest = Now() + machine_.shortest_term();
  const bool is_sooner = nearest < watch_at_;
  if (is_sooner) watch_at_ = nearest;
  const bool leaves_flush = later && !outgoing.empty() && !is_for_peer;
  if (leaves_flush) flush_wanted_ = true;
  lock.unlock();
  if (has_work) work_.notify_one();
  if (is_sooner || leaves_flush) deadline_.notify_one();
  if (!outgoing.empty() && !leaves_flush) sink_->Flush();
}

void StageWorker::ComputeLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    AwaitWork(&lock);
    bool has_turn = false;
    if (!is_stopping_ && (machine_.HasReady() || !jobs_.empty())) {
      machine_.AwaitTurn(Now());
      Dispatch(std::move(lock));
      has_turn = turn_->Begin(Now() + kTurnWait);
      lock = std::unique_lock(mutex_);
      if (has_turn && turn_->has_waited()) DelayForBatch(&lock);
    }
    if (is_stopping_) break;
    Round round = TakeRound(has_turn);
    Dispatch(std::move(lock));

    RunOrders(&round);
    if (!round.items.empty()) {
      runner_.Run(&round.items);
      if (observer_ != nullptr) observer_->AddStep(round.items, engine_->marks());
    }
    for (Job& job : round.jobs) {
      job.run(has_turn ? Result<ShardEngine*>(engine_.get())
                       : Status(Code::kStepTimeout, "the machine's compute turn did not come in time"));
      round.job_usable.push_back(engine_->IsUsable(job.sequence));
    }

    lock = std::unique_lock(mutex_);
    CommitRound(&round);
    const bool has_next = machine_.HasReady();
    Dispatch(std::move(lock), has_next);
    const TimePoint sent_at = Now();
    // The turn is kept until the messages are sent: beside another worker's step, which fills all cores, sending would
    // take as long as that step.
    if (has_turn) turn_->End();
    if (observer_ != nullptr) observer_->StepSent(sent_at);
    lock = std::unique_lock(mutex_);
  }
  turn_->End();
  for (Job& job : jobs_) job.run(Status(Code::kNotReady, "the shard is being unloaded"));
}

void StageWorker::AwaitWork(std::unique_lock<std::mutex>* lock) {
  const auto has_work = [this] { return is_stopping_ || machine_.HasWork() || !jobs_.empty(); };
  for (;;) {
    const bool is_streaming = machine_.IsSomebodyStreaming(Now());
    turn_->TellDecoding(is_streaming);
    if (!is_streaming) return work_.wait(*lock, has_work);
    if (work_.wait_for(*lock, kTellInterval, has_work)) return;
  }
}

void StageWorker::DelayForBatch(std::unique_lock<std::mutex>* lock) {
  if (!machine_.AwaitsRows(Now()) || !batching_delay_.IsWorthwhile()) return;
  const std::size_t ready = machine_.ready_sessions();
  work_.wait_for(*lock, kBatchingDelay, [this] { return is_stopping_ || !machine_.AwaitsRows(Now()); });
  batching_delay_.Note(machine_.ready_sessions() > ready);
}

StageWorker::Round StageWorker::TakeRound(bool has_turn) {
  Round round;
  round.orders = machine_.TakeOrders();
  if (has_turn) round.items = machine_.TakeStep(Now(), turn_->OthersDecode());
  round.jobs = std::exchange(jobs_, {});
  is_computing_ = !round.items.empty() || !round.jobs.empty();
  if (is_computing_) step_at_ = Now();
  return round;
}

void StageWorker::RunOrders(Round* round) {
  for (const EngineOrder& order : round->orders) {
    // If Open fails, the session's first step reports it: the engine refuses its rows.
    if (order.kind == EngineOrder::Kind::kOpen) {
      const Status status = engine_->Open(order.sequence);
      round->usable.push_back(status.ok());
    } else {
      engine_->Close(order.sequence);
      round->usable.push_back(engine_->IsUsable(order.sequence));
    }
  }
}

void StageWorker::CommitRound(Round* round) {
  for (std::size_t i = 0; i < round->orders.size(); ++i) {
    if (round->orders[i].kind == EngineOrder::Kind::kClose) machine_.Released(round->orders[i], round->usable[i]);
  }
  for (std::size_t i = 0; i < round->jobs.size(); ++i) {
    machine_.table().Release(round->jobs[i].sequence, 0, round->job_usable[i]);
  }
  const std::vector<SequenceId> quarantined = machine_.table().quarantined();
  for (const SequenceId sequence : quarantined) {
    if (engine_->IsUsable(sequence)) machine_.table().Restore(sequence);
  }
  orders_done_ += round->orders.size();
  if (!round->orders.empty()) released_.notify_all();
  if (std::exchange(is_computing_, false)) step_at_ = Now();
  machine_.CommitStep(std::move(round->items), Now());
}

void StageWorker::WatchLoop() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (std::exchange(flush_wanted_, false)) {
      lock.unlock();
      sink_->Flush();
      lock.lock();
    }
    if (Now() >= watch_at_) {
      watch_at_ = machine_.Tick(Now());
      Dispatch(std::move(lock));
      lock = std::unique_lock(mutex_);
    }
    deadline_.wait_until(lock, watch_at_, [this] { return is_stopping_ || flush_wanted_ || Now() >= watch_at_; });
  }
  const bool owes_flush = flush_wanted_;
  lock.unlock();
  if (owes_flush) sink_->Flush();
}

Result<SessionTerms> StageWorker::Open(const v1::SessionSpec& spec) {
  std::unique_lock lock(mutex_);
  const Result<std::shared_ptr<Session>> session = machine_.Open(spec, Now());
  Dispatch(std::move(lock));
  if (!session.ok()) return session.status();
  return session.value()->terms();
}

bool StageWorker::Close(const SessionId& session, std::uint32_t epoch) {
  std::unique_lock lock(mutex_);
  const bool was_open = machine_.Close(session, epoch, Now());
  const std::uint64_t orders = machine_.orders_given();
  Dispatch(std::move(lock));
  if (was_open) {
    lock = std::unique_lock(mutex_);
    released_.wait_for(lock, kReleaseWait, [&] { return orders_done_ >= orders || is_stopping_; });
  }
  return was_open;
}

Status StageWorker::Receive(const Origin& origin, std::vector<Message>&& messages) {
  Status failure;
  std::unique_lock lock(mutex_);
  for (Message& message : messages) {
    Status status =
        std::visit([&](auto&& body) { return machine_.Receive(origin, std::move(body), Now()); }, std::move(message));
    if (failure.ok()) failure = std::move(status);
    if (!failure.ok() && origin.carrier == Carrier::kPeer) break;
  }
  Dispatch(std::move(lock));
  return failure;
}

void StageWorker::LosePeer(const std::string& fingerprint, const std::string& why) {
  std::unique_lock lock(mutex_);
  machine_.LosePeer(fingerprint, why, Now());
  Dispatch(std::move(lock));
}

void StageWorker::AttachBridge() {
  std::unique_lock lock(mutex_);
  machine_.AttachBridge();
  Dispatch(std::move(lock));
}

bool StageWorker::Knows(const std::string& fingerprint) const {
  const std::lock_guard lock(mutex_);
  return machine_.Knows(fingerprint);
}

void StageWorker::FillStatus(v1::StatusReply* reply) const {
  const std::lock_guard lock(mutex_);
  reply->set_ready(true);
  *reply->mutable_contract() = facts().contract;
  for (const auto& [id, session] : machine_.table().open()) {
    v1::SessionStatus* status = reply->add_sessions();
    status->set_session(ToBytes(id));
    status->set_epoch(session->terms().epoch);
    status->set_stage(session->terms().stage);
    status->set_position(session->length);
    status->set_kv_cells(session->terms().kv_cells);
    status->set_idle_ms(static_cast<std::uint32_t>(MillisecondsSince(session->heard_at)));
  }
  reply->set_kv_cells_total(facts().kv_cells);
  reply->set_kv_cells_reserved(static_cast<std::uint32_t>(machine_.table().kv_cells_reserved()));
  const StageCounters& counters = machine_.counters();
  reply->set_frames_received(counters.frames_received);
  reply->set_frames_repeated(counters.frames_repeated);
  reply->set_frames_stray(counters.frames_stray);
  reply->set_frames_refused(counters.frames_refused);
  reply->set_steps(counters.steps);
  reply->set_rows(counters.rows);
  reply->set_compute_us(counters.compute_us);
  reply->set_last_step_age_ms(MillisecondsSince(step_at_));
  reply->set_computing(is_computing_);
  std::uint32_t frames = 0;
  std::uint64_t bytes = 0;
  machine_.CountQueued(&frames, &bytes);
  reply->set_queued_frames(frames);
  reply->set_queued_bytes(bytes);
}

Result<v1::ProbeReply> StageWorker::Probe(const v1::ProbeRequest& request, std::chrono::milliseconds deadline) {
  // Shared with the job, which may outlive a caller that gave up.
  auto promise = std::make_shared<std::promise<Result<v1::ProbeReply>>>();
  std::future<Result<v1::ProbeReply>> reply = promise->get_future();
  {
    std::unique_lock lock(mutex_);
    const Result<SequenceId> sequence = machine_.table().Borrow();
    if (!sequence.ok()) return sequence.status();
    jobs_.push_back({sequence.value(), [promise, request, id = sequence.value()](const Result<ShardEngine*>& engine) {
                       promise->set_value(engine.ok() ? RunProbe(engine.value(), id, request) : engine.status());
                     }});
  }
  work_.notify_one();
  if (reply.wait_for(deadline) != std::future_status::ready) {
    return Status(Code::kStepTimeout, "the engine did not compute the probe in time");
  }
  return reply.get();
}

}  // namespace meshnet
