// The interface between the worker and an engine, which computes a shard's layers.
//
// Threads: one compute thread owns an engine. Every method that is not marked "any thread" is called by it alone, one
// at a time. An engine starts no thread that outlives it and never blocks on anything but its own computation.
// Ownership: the worker owns the engine. Spans in a StepSlice belong to the caller during Step; spans in a StepResult
// belong to the engine and are valid until the next call of any of its methods. Source: docs/wire.md.
#ifndef MESHNET_ENGINE_SHARD_ENGINE_H_
#define MESHNET_ENGINE_SHARD_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshnet/v1/session.pb.h"
#include "wire/status.h"

namespace meshnet {

// Half-open range of absolute layer numbers.
struct LayerSpan {
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;

  bool operator==(const LayerSpan&) const = default;
};

// Parameters of a load. 0 means the engine's default unless the member's comment says otherwise.
struct LoadPlan {
  LayerSpan layers;                  // if layer_end is 0: all layers from layer_begin
  std::uint32_t context_length = 0;  // positions of each sequence
  std::uint32_t kv_cells = 0;        // KV cells of all sequences together; 0: max_sessions * context_length
  std::uint32_t max_sessions = 0;
  std::uint32_t threads = 0;
  std::uint32_t ubatch_rows = 0;
  bool flash_attention = false;
  std::string artifact_digest;           // SHA-256, 32 bytes, computed by the agent
  std::string gguf_path;                 // LlamaEngine: the file, or the first part of a split one
  std::uint32_t fake_layers = 0;         // FakeEngine: layers of the whole "model"
  std::uint32_t fake_width = 0;          // FakeEngine: elements in a row
  std::uint32_t fake_step_us = 0;        // FakeEngine: microseconds for one row in one layer
  std::uint32_t fake_step_fixed_us = 0;  // FakeEngine: microseconds for a step, in addition to its rows
  bool profile = false;                  // LlamaEngine: whether to note when each part of a step ends
  bool keep_rewind_states = false;       // LlamaEngine: whether to keep states for rewinds (rewinding_engine.h)
};

// Called by the loading thread with the fraction of the load that is done, 0 to 1. Returns false to cancel the load.
using LoadObserver = std::function<bool(float)>;

// Facts of a loaded shard; they do not change as long as the engine lives.
struct ShardFacts {
  v1::BoundaryContract contract;    // as the graph that was built reports it
  std::uint32_t input_width = 0;    // elements in a row of "hidden" that the shard takes; 0 on the head
  std::uint32_t output_width = 0;   // elements in a row of "hidden" that the shard gives; 0 on the tail
  std::uint32_t max_sequences = 0;  // sequence ids are 0 .. max_sequences - 1
  std::uint32_t kv_cells = 0;       // KV cells of all sequences together
  std::uint32_t max_step_rows = 0;  // the most rows that one Step takes
  std::uint32_t batch_rows = 0;     // rows that the engine computes at once; more in a step gain nothing
  // Whether decode and prefill rows may share a step. If not, the decode rows would change the shapes in which the
  // prefill rows are computed, and so the last bits of their results.
  bool mixes_phases = true;
  bool truncates = true;            // whether sequences can be truncated at every position
  std::uint64_t weights_bytes = 0;  // of the weights in memory
  std::uint64_t nextn_bytes = 0;    // of blocks that draft tokens: the tail does not load them; 0 elsewhere
  std::uint64_t kv_bytes = 0;
  std::uint64_t compute_bytes = 0;

  bool is_head() const { return input_width == 0; }
  bool is_tail() const { return output_width == 0; }
};

using SequenceId = std::int32_t;

// The rows of one sequence in one step. A step has at most one slice of each sequence.
struct StepSlice {
  SequenceId sequence = 0;
  std::uint64_t position = 0;  // position of the first row, which is the sequence's current length
  std::uint32_t rows = 0;
  std::span<const std::uint32_t> token_ids;    // [rows]; the head needs them, other stages if their contract says so
  std::span<const float> hidden;               // [rows, input_width]; empty on the head
  std::span<const std::uint32_t> logits_rows;  // ascending indices of the rows whose logits the tail is to give
};

// The result of a step for one of its slices. If `status` is not ok, close the slice's sequence: it is of no more use.
struct StepResult {
  Status status;
  std::span<const float> hidden;  // [rows, output_width]; empty on the tail
  std::span<const float> logits;  // [logits_rows.size(), vocab_size]; empty if the shard is not the tail
};

// Which part of a sequence's memory a saved state holds.
enum class StateScope {
  // All of it. The state can be restored in any sequence of an engine with the same artifact, layers and settings.
  kWhole,
  // Only the parts that cannot be truncated: sliding windows, recurrent states, and the blocks that a compressed KV
  // cache has not completed.
  kNotTruncated,
};

// The saved state of a sequence that had `length` rows. `bytes` are in the engine's own format and can be restored only
// in the same process.
struct SequenceState {
  StateScope scope = StateScope::kWhole;
  std::uint64_t length = 0;
  std::vector<std::uint8_t> bytes;
};

// When one part of a step ended. `part` names it, for example "layers to 5".
struct StepMark {
  std::string part;
  std::chrono::steady_clock::time_point at;
};

class ShardEngine {
 public:
  virtual ~ShardEngine() = default;

  // Any thread. The same facts as long as the engine lives.
  virtual const ShardFacts& facts() const = 0;

  // Begins an empty sequence. kTooManySessions if the id is out of range, kSessionExists if it is open, kNotReady if
  // its cells are quarantined because they may hold values that are not finite.
  virtual Status Open(SequenceId sequence) = 0;

  // Runs the slices as one batch and fills `results` with one result for each. A slice that breaks a rule is not run
  // and fails alone, with kUnknownSession, kWrongShape, kWrongSize, kMissingTokenIds, kBadTokenId, kWrongPosition,
  // kContextFull or kNotFinite. A slice that gives a value that is not finite fails alone too (kNotFinite). If the
  // returned status is not ok, all slices fail: with kMessageTooLarge if they have more rows, or want logits of more
  // rows, than a step takes, and otherwise with kEngineFailed.
  virtual Status Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) = 0;

  // Truncates a sequence to `length` rows; later steps run as if it had never been longer. If it has fewer rows
  // (kWrongPosition) or its memory cannot go back so far (kRewindRefused), the sequence is unchanged. After any other
  // code the sequence is of no more use: close it.
  virtual Status Rewind(SequenceId sequence, std::uint64_t length) = 0;

  // Saves the part of a sequence's memory that `scope` names. Fails with kUnknownSession if the sequence is not
  // open, with kNotReady if its cells are quarantined, and with kEngineFailed if llama.cpp cannot save it.
  virtual Result<SequenceState> Save(SequenceId sequence, StateScope scope) = 0;

  // Restores an open sequence to a saved state. A kNotTruncated state fits only the sequence that it was saved from,
  // and only if that sequence never became shorter than the state in between. Fails with kUnknownSession if the
  // sequence is not open, with kWrongPosition if the state is kNotTruncated and longer than the sequence, with
  // kContextFull if no cells are left, and with kEngineFailed if the state was not saved from the same layers; after
  // kEngineFailed, close the sequence.
  virtual Status Restore(SequenceId sequence, const SequenceState& state) = 0;

  // Ends a sequence and frees its cells; idempotent.
  virtual void Close(SequenceId sequence) = 0;

  // Rows that a sequence holds; 0 if it is not open.
  virtual std::uint64_t Length(SequenceId sequence) const = 0;

  // When the parts of the last step ended, in order; empty unless the plan asked for a profile. Valid until the next
  // step.
  virtual std::span<const StepMark> marks() const { return {}; }

  // Whether the id is in range and its cells are not quarantined. Open then accepts it, unless it is open already.
  virtual bool IsUsable(SequenceId sequence) const = 0;
};

// Checks a slice as every engine does before it computes. `length` is the current length of the slice's sequence.
Status CheckSlice(const ShardFacts& facts, std::uint64_t length, const StepSlice& slice);

// The contract digest: SHA-256, 32 bytes, of the facts that must be equal on all stages of a route. They are the
// artifact, kGraphSemanticsVersion, the architecture, the model's number of layers, the context length (rope factors
// depend on it), the size of the vocabulary, and `details`, in which an engine names its own facts.
std::string ContractDigest(const LoadPlan& plan, const v1::BoundaryContract& contract, std::string_view details);

// Name of the tensor that crosses a seam. All served architectures have only this one.
inline constexpr std::string_view kHiddenTensor = "hidden";
// Appends the hidden tensor, of type f32 and this width, to `specs`, the inputs or outputs of a contract.
void AddHiddenSpec(std::uint32_t elements_per_row, google::protobuf::RepeatedPtrField<v1::TensorSpec>* specs);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_SHARD_ENGINE_H_
