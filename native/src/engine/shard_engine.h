// The interface between the worker and whatever computes a shard's layers.
//
// Threads: one compute thread owns an engine. Every method that is not marked "any thread" is called by it alone, one
// at a time. An engine starts no thread that outlives it and never blocks on anything but its own computation.
// Ownership: the worker owns the engine; spans in a StepSlice belong to the caller for the length of Step, spans in a
// StepResult belong to the engine and are valid until the next call of any of its methods.
// Source: docs/wire.md.
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

// What an engine is asked to load. 0 stands for the engine's default unless a comment says otherwise.
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
  std::uint32_t fake_step_fixed_us = 0;  // FakeEngine: time of a step, beside its rows'
  bool profile = false;                  // LlamaEngine: marks the parts of its steps
  bool keep_rewind_states = false;       // LlamaEngine: if its memory cannot be cut off, keeps states to go back to
};

// Called while loading with a fraction of 0 to 1, by the loading thread. Returns false to give up.
using LoadObserver = std::function<bool(float)>;

// What a loaded shard is; constant for the engine's life.
struct ShardFacts {
  v1::BoundaryContract contract;    // as reported by the graph that is really built
  std::uint32_t input_width = 0;    // elements a row of "hidden" taken; 0 on the head
  std::uint32_t output_width = 0;   // elements a row of "hidden" given; 0 on the tail
  std::uint32_t max_sequences = 0;  // sequence ids are 0 .. max_sequences - 1
  std::uint32_t kv_cells = 0;       // that may be reserved in all
  std::uint32_t max_step_rows = 0;  // rows one Step takes
  std::uint32_t batch_rows = 0;     // rows that are worth batching; at most max_step_rows
  bool mixes_phases = true;         // whether decode and prefill rows may share a step without changing its shape
  bool truncates = true;            // whether a memory of its kind can be cut off anywhere
  std::uint64_t weights_bytes = 0;  // in memory
  std::uint64_t nextn_bytes = 0;    // tail: of blocks that draft tokens, left in the file while drafts are not spoken
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

// What one slice gave. Where status is not ok, the sequence holds nothing that may be used: close it.
struct StepResult {
  Status status;
  std::span<const float> hidden;  // [rows, output_width]; empty on the tail
  std::span<const float> logits;  // tail: [logits_rows.size(), vocab_size], in their order
};

// What of a sequence's memory a state holds.
enum class StateScope {
  kWhole,         // all: goes on in any sequence of an engine with the same artifact, layers and settings
  kNotTruncated,  // what cannot be cut off: windows, open blocks of compressors, recurrent states
};

// What a sequence held when it was `length` rows long; the engine's own bytes, for this process alone.
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

  // Begins an empty sequence. kTooManySessions for an id out of range, kSessionExists for one that is open, kNotReady
  // for one whose cells are quarantined after rows that were not finite.
  virtual Status Open(SequenceId sequence) = 0;

  // Runs the slices as one batch and fills one result for each. A slice that breaks a rule fails alone and is not run:
  // kUnknownSession, kWrongShape, kWrongSize, kMissingTokenIds, kBadTokenId, kWrongPosition, kContextFull,
  // kNotFinite (input or output). A status that is not ok (kEngineFailed, kMessageTooLarge) fails all slices.
  virtual Status Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) = 0;

  // Truncates a sequence to `length` rows: what follows is as if it had never been longer. kWrongPosition beyond its
  // length, kRewindRefused where there is no way back to there; the sequence is then as it was. After any other code it
  // holds nothing that may be used.
  virtual Status Rewind(SequenceId sequence, std::uint64_t length) = 0;

  // What a sequence holds now. kUnknownSession, kNotReady (quarantined), kEngineFailed.
  virtual Result<SequenceState> Save(SequenceId sequence, StateScope scope) = 0;

  // Makes an open sequence what it was when the state was saved. A state of kNotTruncated fits the sequence that it was
  // taken from alone, where that has not been shorter since. kUnknownSession, kWrongPosition (kNotTruncated, and the
  // sequence is shorter), kContextFull; kEngineFailed: no state of these layers, and the sequence is to be closed.
  virtual Status Restore(SequenceId sequence, const SequenceState& state) = 0;

  // Ends a sequence and frees its cells; idempotent.
  virtual void Close(SequenceId sequence) = 0;

  // Rows that a sequence holds; 0 where it is not open.
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
