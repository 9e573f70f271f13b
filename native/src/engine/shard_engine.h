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

// Parameters of a load. 0 means the engine's default unless a comment says otherwise.
struct LoadPlan {
  LayerSpan layers;                  // layer_end 0: all layers from layer_begin
  std::uint32_t context_length = 0;  // positions a sequence
  std::uint32_t kv_cells = 0;        // in all; 0: max_sessions * context_length
  std::uint32_t max_sessions = 0;
  std::uint32_t threads = 0;
  std::uint32_t ubatch_rows = 0;
  bool flash_attention = false;
  std::string artifact_digest;           // SHA-256, 32 bytes, computed by the agent
  std::string gguf_path;                 // LlamaEngine: first part of a split file
  std::uint32_t fake_layers = 0;         // FakeEngine: layers of the whole "model"
  std::uint32_t fake_width = 0;          // FakeEngine: elements a row
  std::uint32_t fake_step_us = 0;        // FakeEngine: time of one row, a layer
  std::uint32_t fake_step_fixed_us = 0;  // FakeEngine: time of a step, without its rows
  bool profile = false;                  // LlamaEngine: notes when each part of a step ends
  bool keep_rewind_states = false;       // LlamaEngine: keeps states for rewinds if memory cannot be truncated
};

// Called by the loading thread with a fraction of 0 to 1. Returns false to cancel the load.
using LoadObserver = std::function<bool(float)>;

// Facts of a loaded shard; constant for the engine's life.
struct ShardFacts {
  v1::BoundaryContract contract;    // as reported by the graph that is really built
  std::uint32_t input_width = 0;    // elements a row of "hidden" taken; 0 on the head
  std::uint32_t output_width = 0;   // elements a row of "hidden" given; 0 on the tail
  std::uint32_t max_sequences = 0;  // sequence ids are 0 .. max_sequences - 1
  std::uint32_t kv_cells = 0;       // cells that may be reserved in all
  std::uint32_t max_step_rows = 0;  // rows one Step takes
  std::uint32_t batch_rows = 0;     // rows that are worth batching; at most max_step_rows
  bool mixes_phases = true;         // whether decode and prefill rows may share a step without changing its shape
  bool truncates = true;            // whether its memory can be truncated at every position
  std::uint64_t weights_bytes = 0;  // in memory
  std::uint64_t nextn_bytes = 0;    // tail: bytes of blocks that draft tokens, which are not loaded
  std::uint64_t kv_bytes = 0;
  std::uint64_t compute_bytes = 0;

  bool is_head() const { return input_width == 0; }
  bool is_tail() const { return output_width == 0; }
};

using SequenceId = std::int32_t;

// Rows of one session in one step. A step holds each sequence once.
struct StepSlice {
  SequenceId sequence = 0;
  std::uint64_t position = 0;  // of the first row: the sequence's current length
  std::uint32_t rows = 0;
  std::span<const std::uint32_t> token_ids;    // [rows]; the head needs them, others where the contract says so
  std::span<const float> hidden;               // [rows, input_width]; empty on the head
  std::span<const std::uint32_t> logits_rows;  // ascending indices below rows; read on the tail only
};

// Result of one slice. If status is not ok, the sequence's contents may not be used: close it.
struct StepResult {
  Status status;
  std::span<const float> hidden;  // [rows, output_width]; empty on the tail
  std::span<const float> logits;  // tail: [logits_rows.size(), vocab_size], in their order
};

// The part of a sequence's memory that a state holds.
enum class StateScope {
  kWhole,         // all: can be restored in any sequence of an engine with the same artifact, layers and settings
  kNotTruncated,  // the part that cannot be truncated: windows, open blocks of compressors, recurrent states
};

// State of a sequence of `length` rows. The bytes are the engine's own format, for this process only.
struct SequenceState {
  StateScope scope = StateScope::kWhole;
  std::uint64_t length = 0;
  std::vector<std::uint8_t> bytes;
};

// The end of a part of a step.
struct StepMark {
  std::string part;
  std::chrono::steady_clock::time_point at;
};

class ShardEngine {
 public:
  virtual ~ShardEngine() = default;

  // Any thread. Constant.
  virtual const ShardFacts& facts() const = 0;

  // Begins an empty sequence. kTooManySessions if the id is out of range, kSessionExists if it is open, kNotReady if
  // its cells are quarantined after rows that were not finite.
  virtual Status Open(SequenceId sequence) = 0;

  // Runs the slices as one batch and fills one result for each. If a slice breaks a rule, it fails alone and is not
  // run: kUnknownSession, kWrongShape, kWrongSize, kMissingTokenIds, kBadTokenId, kWrongPosition, kContextFull,
  // kNotFinite (input or output). If the returned status is not ok (kEngineFailed, kMessageTooLarge), all slices fail.
  virtual Status Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) = 0;

  // Truncates a sequence to `length` rows; later steps run as if it had never been longer. If `length` is beyond its
  // length (kWrongPosition) or cannot be reached (kRewindRefused), the sequence is unchanged. After any other code its
  // contents may not be used.
  virtual Status Rewind(SequenceId sequence, std::uint64_t length) = 0;

  // Returns the state of a sequence. kUnknownSession, kNotReady (quarantined), kEngineFailed.
  virtual Result<SequenceState> Save(SequenceId sequence, StateScope scope) = 0;

  // Restores an open sequence to a saved state. A kNotTruncated state fits only the sequence that it was taken from,
  // and only if that has not been shorter since. kUnknownSession, kWrongPosition (kNotTruncated, and the sequence is
  // shorter), kContextFull. If kEngineFailed, the state is not of these layers; close the sequence.
  virtual Status Restore(SequenceId sequence, const SequenceState& state) = 0;

  // Ends a sequence and frees its cells; idempotent.
  virtual void Close(SequenceId sequence) = 0;

  // Rows that a sequence holds; 0 if it is not open.
  virtual std::uint64_t Length(SequenceId sequence) const = 0;

  // The ends of the last step's parts, in order; empty unless the plan asked for a profile. Valid until the next step.
  virtual std::span<const StepMark> marks() const { return {}; }

  // Whether Open would take this id now (false while its cells are quarantined).
  virtual bool IsUsable(SequenceId sequence) const = 0;
};

// The checks that every engine makes before it computes. `length` is the sequence's current length.
Status CheckSlice(const ShardFacts& facts, std::uint64_t length, const StepSlice& slice);

// SHA-256, 32 bytes, over the facts that must match on all stages of a route: artifact, graph semantics, architecture,
// layers of the model, context length (it picks rope factors), and `details` of the engine (widths, rope settings).
std::string ContractDigest(const LoadPlan& plan, const v1::BoundaryContract& contract, std::string_view details);

// The one seam tensor of the architectures known today.
inline constexpr std::string_view kHiddenTensor = "hidden";
void AddHiddenSpec(std::uint32_t elements_per_row, google::protobuf::RepeatedPtrField<v1::TensorSpec>* specs);

}  // namespace meshnet

#endif  // MESHNET_ENGINE_SHARD_ENGINE_H_
