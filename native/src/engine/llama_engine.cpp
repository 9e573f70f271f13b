#include "engine/llama_engine.h"

#include <ggml-cpu.h>
#include <llama.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "engine/core_placement.h"
#include "engine/llama_aborts.h"
#include "engine/llama_artifact.h"
#include "engine/llama_batch_rows.h"
#include "engine/llama_facts.h"
#include "engine/llama_slots.h"
#include "engine/llama_state.h"
#include "engine/rewinding_engine.h"
#include "wire/protocol_limits.h"
#include "wire/tensor_codec.h"

namespace meshnet {
namespace {

constexpr std::uint32_t kDefaultContextLength = 2048;
constexpr std::uint32_t kDefaultSessions = 4;
constexpr std::uint32_t kDefaultUbatchRows = 512;
// A step takes at least so many rows, even if ubatch_rows is smaller: llama.cpp cuts a batch into ubatches.
constexpr std::uint32_t kMinBatchRows = 512;
// A step gives logits for at least so many rows; they take rows x vocabulary floats of memory.
constexpr std::uint32_t kMinOutputRows = 64;
constexpr std::uint32_t kMaxSessions = 64;  // LLAMA_MAX_SEQ is larger, but the memory for KV cells runs out before
constexpr std::uint32_t kMaxThreads = 256;
constexpr llama_seq_id kNoSlot = -1;
// An estimate of the speed at which a moved sequence's cells are copied.
constexpr std::uint64_t kCopyBytesPerNs = 4;

struct Free {
  void operator()(llama_model* model) const { llama_model_free(model); }
  void operator()(llama_context* context) const { llama_free(context); }
  void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// The threads of one engine: ggml's pool, and the core to which the compute thread is to bind itself, if threads are
// bound.
struct EngineThreads {
  Owned<ggml_threadpool> pool;
  std::optional<int> own_core;
};

void StartBackend() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_backend_init();
    // Only errors are logged: a healthy load prints hundreds of lines.
    llama_log_set(
        [](enum ggml_log_level level, const char* text, void* /*data*/) {
          if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
  });
}

std::uint32_t OrDefault(std::uint32_t value, std::uint32_t fallback) { return value == 0 ? fallback : value; }

Result<LoadPlan> Complete(LoadPlan plan, const LlamaArtifact& artifact) {
  plan.layers.layer_end = OrDefault(plan.layers.layer_end, artifact.n_layers);
  if (plan.layers.layer_begin >= plan.layers.layer_end || plan.layers.layer_end > artifact.n_layers) {
    return Status(Code::kLayersOutOfRange, "the layers are outside the model's 0:" + std::to_string(artifact.n_layers));
  }
  plan.context_length = OrDefault(plan.context_length, std::min(kDefaultContextLength, artifact.context_length));
  plan.max_sessions = OrDefault(plan.max_sessions, kDefaultSessions);
  plan.ubatch_rows = OrDefault(plan.ubatch_rows, kDefaultUbatchRows);
  plan.threads = OrDefault(plan.threads, std::max(1u, std::thread::hardware_concurrency()));
  if (plan.context_length > artifact.context_length) {
    return Status(Code::kInvalidArgument,
                  "a context longer than the model's " + std::to_string(artifact.context_length));
  }
  // Each sequence has cells of its own for a whole context, so a limit on the cells is a limit on the sequences.
  if (plan.kv_cells > 0) plan.max_sessions = std::min(plan.max_sessions, plan.kv_cells / plan.context_length);
  if (plan.max_sessions < 1 || plan.max_sessions > kMaxSessions || plan.threads > kMaxThreads ||
      plan.ubatch_rows > kMaxRows) {
    return Status(Code::kInvalidArgument, "sessions, cells, threads or ubatch are out of range");
  }
  return plan;
}

llama_context_params ContextParams(const LoadPlan& plan) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = plan.context_length * plan.max_sessions;
  params.n_seq_max = plan.max_sessions;
  params.kv_unified = false;
  params.n_ubatch = plan.ubatch_rows;
  params.n_batch = std::max({plan.ubatch_rows, kMinBatchRows, plan.max_sessions});
  params.n_outputs_max = std::max(plan.max_sessions, kMinOutputRows);
  params.n_threads = static_cast<std::int32_t>(plan.threads);
  params.n_threads_batch = params.n_threads;
  params.flash_attn_type = plan.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  // Sliding windows keep the visible positions and one ubatch more; Rewind refuses if that is too little.
  params.swa_full = false;
  params.no_perf = true;
  return params;
}

class LlamaEngine : public ShardEngine {
 public:
  // `profile` is null, or is attached to `context`.
  LlamaEngine(std::unique_ptr<StepProfile> profile, Owned<llama_model> model, Owned<llama_context> context,
              EngineThreads threads, ShardFacts facts, std::uint32_t max_output_rows)
      : facts_(std::move(facts)),
        max_output_rows_(max_output_rows),
        profile_(std::move(profile)),
        model_(std::move(model)),
        pool_(std::move(threads.pool)),
        own_core_(threads.own_core),
        context_(std::move(context)),
        memory_(llama_get_memory(context_.get())),
        rows_(facts_, model_.get()),
        window_(llama_model_n_swa(model_.get())),
        slots_(facts_.max_sequences,
               std::chrono::nanoseconds(facts_.kv_bytes / facts_.max_sequences / kCopyBytesPerNs)),
        sequences_(facts_.max_sequences) {
    llama_attach_threadpool(context_.get(), pool_.get(), pool_.get());
  }

  ~LlamaEngine() override { llama_detach_threadpool(context_.get()); }

  const ShardFacts& facts() const override { return facts_; }
  Status Open(SequenceId sequence) override;
  Status Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) override;
  Status Rewind(SequenceId sequence, std::uint64_t length) override;
  Result<SequenceState> Save(SequenceId sequence, StateScope scope) override;
  Status Restore(SequenceId sequence, const SequenceState& state) override;
  void Close(SequenceId sequence) override;
  std::uint64_t Length(SequenceId sequence) const override { return IsOpen(sequence) ? At(sequence).length : 0; }
  bool IsUsable(SequenceId sequence) const override { return InRange(sequence) && !At(sequence).is_poisoned; }
  std::span<const StepMark> marks() const override {
    return profile_ == nullptr ? std::span<const StepMark>() : profile_->marks();
  }

 private:
  struct Sequence {
    bool is_open = false;
    bool is_poisoned = false;     // its cells may hold NaN, so they are not used until they are cleared
    llama_seq_id slot = kNoSlot;  // kNoSlot unless the sequence is open or poisoned
    std::uint64_t length = 0;
  };

  bool InRange(SequenceId sequence) const {
    return sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size();
  }
  bool IsOpen(SequenceId sequence) const { return InRange(sequence) && At(sequence).is_open; }
  const Sequence& At(SequenceId sequence) const { return sequences_[static_cast<std::size_t>(sequence)]; }
  Sequence& At(SequenceId sequence) { return sequences_[static_cast<std::size_t>(sequence)]; }
  Status Check(const StepSlice& slice) const;
  void CloseGap(std::span<const StepSlice> slices);
  void FreeMovedCells();
  void SortBySlot(std::span<const StepSlice> slices);
  void BindToOwnCore();
  Status Decode();
  // Number of floats that the slice gets of the step's output.
  std::size_t OutputValues(const StepSlice& slice) const {
    return facts_.is_tail() ? slice.logits_rows.size() * facts_.contract.vocab_size()
                            : std::size_t{slice.rows} * facts_.output_width;
  }
  void ReadOutputs(std::span<const StepSlice> slices, std::vector<StepResult>* results);
  void ClearWhenDrained();
  void FreeSlot(Sequence* sequence);

  const ShardFacts facts_;
  const std::uint32_t max_output_rows_;
  const std::unique_ptr<StepProfile> profile_;
  const Owned<llama_model> model_;  // outlives the context, as do the pool and the profile
  const Owned<ggml_threadpool> pool_;
  std::optional<int> own_core_;  // core for the compute thread; empty once the thread is bound
  const Owned<llama_context> context_;
  const llama_memory_t memory_;
  LlamaBatchRows rows_;
  const llama_pos window_;             // positions that a sliding-window layer sees; 0 if there are no such layers
  llama_seq_id moved_from_ = kNoSlot;  // slot of a moved sequence, whose cells there are freed after the step
  LlamaSlots slots_;
  std::vector<Sequence> sequences_;
  std::vector<llama_seq_id> slots_used_;  // slots of the step's sequences, ascending
  std::vector<std::size_t> order_;        // indices of the step's slices, in the order of their slots
};

Status LlamaEngine::Open(SequenceId sequence) {
  if (!InRange(sequence)) return {Code::kTooManySessions, "the sequence's number is out of range"};
  if (IsOpen(sequence)) return {Code::kSessionExists, "the sequence is open"};
  if (!IsUsable(sequence)) return {Code::kNotReady, "the sequence's cells are quarantined"};
  At(sequence) = {.is_open = true, .slot = slots_.Take()};
  return Status::Ok();
}

Status LlamaEngine::Check(const StepSlice& slice) const {
  if (!IsOpen(slice.sequence)) return {Code::kUnknownSession, "the sequence is not open"};
  return CheckSlice(facts_, Length(slice.sequence), slice);
}

void LlamaEngine::BindToOwnCore() {
  const std::optional<int> core = std::exchange(own_core_, std::nullopt);
  if (core.has_value()) BindThisThread({*core});  // if this is refused, the step is only slower
}

Status LlamaEngine::Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) {
  BindToOwnCore();
  results->assign(slices.size(), {});
  std::size_t rows = 0;
  std::size_t outputs = 0;
  for (const StepSlice& slice : slices) {
    rows += slice.rows;
    outputs += slice.logits_rows.size();
  }
  if (rows > facts_.max_step_rows || outputs > max_output_rows_) {
    return {Code::kMessageTooLarge, "there are more rows or outputs than a step takes"};
  }
  rows_.Clear();
  std::vector<bool> is_stepped(sequences_.size(), false);
  CloseGap(slices);
  SortBySlot(slices);
  for (const std::size_t i : order_) {
    Status status = Check(slices[i]);
    if (status.ok() && is_stepped[static_cast<std::size_t>(slices[i].sequence)]) {
      status = {Code::kWrongPosition, "a sequence stands twice in one step"};
    }
    if (status.ok()) {
      is_stepped[static_cast<std::size_t>(slices[i].sequence)] = true;
      rows_.Add(slices[i], At(slices[i].sequence).slot);
    }
    (*results)[i].status = std::move(status);
  }
  if (rows_.empty()) {
    FreeMovedCells();
    return Status::Ok();
  }
  if (profile_ != nullptr) profile_->Begin();
  const auto begin = std::chrono::steady_clock::now();
  const Status status = Decode();
  FreeMovedCells();
  if (!status.ok()) return status;
  slots_.NoteStep(slots_used_, std::chrono::steady_clock::now() - begin);
  if (profile_ != nullptr) profile_->Mark(facts_.is_tail() ? "head" : "rest");
  ReadOutputs(slices, results);
  if (profile_ != nullptr) profile_->Mark("outputs");
  return Status::Ok();
}

// Fills order_ with the slices' indices in the order of their slots, so that llama.cpp computes neighbours at once.
void LlamaEngine::SortBySlot(std::span<const StepSlice> slices) {
  const auto slot = [this, slices](std::size_t i) {
    return InRange(slices[i].sequence) ? At(slices[i].sequence).slot : kNoSlot;
  };
  order_.resize(slices.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return slot(a) < slot(b); });
}

// Moves one of the step's sequences into a free slot between the slots of the others, if gaps have cost enough time.
// Sequences in adjacent slots need fewer passes over the weights.
void LlamaEngine::CloseGap(std::span<const StepSlice> slices) {
  slots_used_.clear();
  for (const StepSlice& slice : slices) {
    const bool is_whole = IsOpen(slice.sequence) && !At(slice.sequence).is_poisoned;
    if (is_whole) slots_used_.push_back(At(slice.sequence).slot);
  }
  std::sort(slots_used_.begin(), slots_used_.end());
  if (slots_used_.size() < 2) return;
  const std::optional<LlamaSlots::Move> move = slots_.CloseGap(slots_used_);
  if (!move.has_value()) return;
  llama_memory_seq_cp(memory_, move->from, move->to, -1, -1);
  moved_from_ = move->from;
  const auto moved = std::find_if(sequences_.begin(), sequences_.end(),
                                  [&move](const Sequence& sequence) { return sequence.slot == move->from; });
  moved->slot = move->to;
  slots_used_.back() = move->to;
  std::sort(slots_used_.begin(), slots_used_.end());
}

// Frees the cells from which a sequence was moved. Call after the step: llama.cpp copies the cells only when it
// decodes, and some kinds of memory clear freed cells at once.
void LlamaEngine::FreeMovedCells() {
  const llama_seq_id from = std::exchange(moved_from_, kNoSlot);
  if (from != kNoSlot) llama_memory_seq_rm(memory_, from, -1, -1);
}

Status LlamaEngine::Decode() {
  const std::int32_t code = llama_decode(context_.get(), rows_.Batch());
  if (code == 0) return Status::Ok();
  return {Code::kEngineFailed, "llama_decode returned " + std::to_string(code)};
}

// Gives each slice its part of the step's output: the logits of its wanted rows on the tail, all of its hidden rows on
// other stages. The parts lie one after the other, in the order of order_.
void LlamaEngine::ReadOutputs(std::span<const StepSlice> slices, std::vector<StepResult>* results) {
  const float* next = nullptr;
  if (!facts_.is_tail()) next = llama_get_hidden(context_.get());
  if (rows_.wants_logits()) next = llama_get_logits(context_.get());
  for (const std::size_t i : order_) {
    StepResult& result = (*results)[i];
    if (!result.status.ok()) continue;
    Sequence& sequence = At(slices[i].sequence);
    sequence.length += slices[i].rows;
    const std::size_t values = OutputValues(slices[i]);
    if (values == 0) continue;
    const std::span<const float> output(next, values);
    next += values;
    if (!AllFinite(output)) {
      sequence.is_poisoned = true;
      result = {Status(Code::kNotFinite, "the model gave a value that is not finite"), {}, {}};
    } else if (facts_.is_tail()) {
      result.logits = output;
    } else {
      result.hidden = output;
    }
  }
}

Status LlamaEngine::Rewind(SequenceId sequence, std::uint64_t length) {
  if (!IsOpen(sequence)) return {Code::kUnknownSession, "the sequence is not open"};
  if (length > At(sequence).length)
    return {Code::kWrongPosition, "the rewind's position is beyond the sequence's length"};
  if (length == At(sequence).length) return Status::Ok();
  const auto next = static_cast<llama_pos>(length);
  const llama_pos oldest_seen = std::max(0, next - window_ + 1);  // oldest position that the next row sees
  const bool is_seen_whole =
      window_ == 0 || next == 0 || llama_memory_seq_pos_min(memory_, At(sequence).slot) <= oldest_seen;
  if (!is_seen_whole || !llama_memory_seq_rm(memory_, At(sequence).slot, next, -1)) {
    // Every memory can be rewound to position 0.
    return {Code::kRewindRefused, "there is no kept state to go back to position " + std::to_string(length) +
                                      "; the nearest one before it is to 0, as no states are kept"};
  }
  At(sequence).length = length;
  return Status::Ok();
}

Result<SequenceState> LlamaEngine::Save(SequenceId sequence, StateScope scope) {
  if (!IsOpen(sequence)) return Status(Code::kUnknownSession, "the sequence is not open");
  if (At(sequence).is_poisoned) return Status(Code::kNotReady, "the sequence's cells are quarantined");
  SequenceState state{scope, Length(sequence), {}};
  if (state.length == 0 || (scope == StateScope::kNotTruncated && facts_.truncates)) return state;
  const Status status = SaveSlot(context_.get(), At(sequence).slot, scope, &state.bytes);
  return status.ok() ? Result<SequenceState>(std::move(state)) : Result<SequenceState>(status);
}

Status LlamaEngine::Restore(SequenceId sequence, const SequenceState& state) {
  const bool is_whole = state.scope == StateScope::kWhole;
  if (!IsOpen(sequence)) return {Code::kUnknownSession, "the sequence is not open"};
  if (!is_whole && state.length > Length(sequence))
    return {Code::kWrongPosition, "the state's position is beyond the sequence's length"};
  if (state.length > facts_.contract.context_length())
    return {Code::kContextFull, "no KV cells are left for the state's rows"};
  if (state.length == 0 || (!is_whole && facts_.truncates)) return Rewind(sequence, state.length);
  const Status status = RestoreSlot(context_.get(), At(sequence).slot, state);
  if (status.ok()) At(sequence).length = state.length;
  return status;
}

void LlamaEngine::Close(SequenceId sequence) {
  if (!IsOpen(sequence)) return;
  llama_memory_seq_rm(memory_, At(sequence).slot, -1, -1);
  At(sequence).is_open = false;
  At(sequence).length = 0;
  if (!At(sequence).is_poisoned) FreeSlot(&At(sequence));
  ClearWhenDrained();
}

// Clears all cells if there are quarantined ones and no sequence is open. Freed cells keep their contents, and a NaN in
// them would reach the attention of the next sequence in the slot. llama.cpp can only zero all cells at once.
void LlamaEngine::ClearWhenDrained() {
  const auto is_open = [](const Sequence& sequence) { return sequence.is_open; };
  const auto is_poisoned = [](const Sequence& sequence) { return sequence.is_poisoned; };
  if (std::any_of(sequences_.begin(), sequences_.end(), is_open)) return;
  if (std::none_of(sequences_.begin(), sequences_.end(), is_poisoned)) return;
  llama_memory_clear(memory_, true);
  for (Sequence& sequence : sequences_) {
    if (sequence.is_poisoned) FreeSlot(&sequence);
    sequence.is_poisoned = false;
  }
}

void LlamaEngine::FreeSlot(Sequence* sequence) { slots_.Free(std::exchange(sequence->slot, kNoSlot)); }

Owned<llama_model> LoadModel(const LoadPlan& plan, const LlamaArtifact& artifact, const LoadObserver& observer,
                             bool* gave_up) {
  struct Progress {
    const LoadObserver& observer;
    bool* gave_up;
  } progress{observer, gave_up};
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.load_mtp = false;                  // no tokens are drafted, so the tail's nextn blocks stay in the file
  params.load_mode = LLAMA_LOAD_MODE_NONE;  // the file is read, not mapped: docs/adr/0012-weights-in-own-memory.md
  params.progress_callback_user_data = &progress;
  params.progress_callback = [](float fraction, void* data) {
    const Progress* p = static_cast<const Progress*>(data);
    const bool goes_on = p->observer(fraction);
    *p->gave_up = !goes_on;
    return goes_on;
  };
  const char* path = plan.gguf_path.c_str();
  if (plan.layers == LayerSpan{0, artifact.n_layers}) {
    return Owned<llama_model>(llama_model_load_from_file(path, params));
  }
  return Owned<llama_model>(llama_model_load_range_from_file(path, static_cast<std::int32_t>(plan.layers.layer_begin),
                                                             static_cast<std::int32_t>(plan.layers.layer_end), params));
}

// Starts the threads of an engine; `pool` is null if that fails. With strict placement, ggml binds the pool's threads
// to the first cores and leaves the last core to the compute thread, which binds itself.
EngineThreads StartThreads(std::uint32_t threads) {
  std::vector<int> cores = CoresToBind(threads, AllowedCores());
  if (!cores.empty() && cores.back() >= GGML_MAX_N_THREADS) cores.clear();
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(threads));
  params.poll = 0;  // spinning threads starve the other workers and the machine's owner
  params.strict_cpu = !cores.empty();
  for (const int core : cores) params.cpumask[core] = true;
  const KeepsCores keeps;  // creating the pool binds the calling thread
  EngineThreads started;
  started.pool.reset(ggml_threadpool_new(&params));
  if (!cores.empty()) started.own_core = cores.back();
  return started;
}

}  // namespace

Result<std::unique_ptr<ShardEngine>> LoadLlamaEngine(const LoadPlan& plan, const LoadObserver& observer,
                                                     std::unique_ptr<StepProfile> profile) {
  if (plan.profile && profile == nullptr) {
    return Status(Code::kInvalidArgument, "this program does not measure the parts of steps");
  }
  StartBackend();
  const Result<LlamaArtifact> artifact = InspectArtifact(plan.gguf_path);
  if (!artifact.ok()) return artifact.status();
  const Result<LoadPlan> complete = Complete(plan, artifact.value());
  if (!complete.ok()) return complete.status();
  bool gave_up = false;
  const AbortsAreExceptions aborts_are_exceptions;
  Owned<llama_model> model = LoadModel(complete.value(), artifact.value(), observer, &gave_up);
  if (gave_up) return Status(Code::kCancelled, "the loading was cancelled");
  if (model == nullptr) return Status(Code::kLoadFailed, "llama.cpp could not load the file");
  llama_context_params params = ContextParams(complete.value());
  if (plan.profile) {
    profile->Attach(&params);
  } else {
    profile = nullptr;
  }
  Owned<llama_context> context(llama_init_from_model(model.get(), params));
  if (context == nullptr) return Status(Code::kLoadFailed, "there is not enough memory for the context");
  EngineThreads engine_threads = StartThreads(complete.value().threads);
  if (engine_threads.pool == nullptr) return Status(Code::kLoadFailed, "no threads could be started for the engine");
  ShardFacts facts = FactsOf(complete.value(), artifact.value(), model.get(), context.get());
  std::unique_ptr<ShardEngine> engine =
      std::make_unique<LlamaEngine>(std::move(profile), std::move(model), std::move(context), std::move(engine_threads),
                                    std::move(facts), params.n_outputs_max);
  return plan.keep_rewind_states ? KeepStates(std::move(engine)) : std::move(engine);
}

}  // namespace meshnet
