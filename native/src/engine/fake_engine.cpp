#include "engine/fake_engine.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "wire/protocol_limits.h"
#include "wire/seam_codec.h"

namespace meshnet {
namespace {

constexpr std::uint64_t kModulus = 65521;
constexpr std::uint32_t kVocabularySize = 260;
constexpr std::uint32_t kEndToken = 257;
constexpr std::uint32_t kMinWidth = 4;
constexpr std::uint32_t kDefaultWidth = 16;
constexpr std::uint32_t kDefaultLayers = 4;
constexpr std::uint32_t kDefaultContextLength = 2048;
constexpr std::uint32_t kDefaultSessions = 8;
constexpr std::uint32_t kDefaultUbatchRows = 512;
constexpr std::uint32_t kMaxLayers = 1024;
constexpr std::uint32_t kMaxWidth = 1u << 16;
constexpr std::uint32_t kMaxSessions = 1024;
constexpr std::uint32_t kMaxContextLength = 1u << 20;

// The largest value that a row may hold: bf16 rounds 65520, the largest integer below the modulus, to this.
constexpr float kMaxTaken = 65536.0f;

// Whether a layer of this engine can have given this value: an integer below the modulus, which a codec may have
// changed a little. A peer's row may hold any finite number.
bool MayBeGiven(float value) { return value >= 0.0f && value <= kMaxTaken; }

// The integer below the modulus for which a row's value stands. If a codec has changed the value, the integer is made
// from its bits, so that different values give different rows.
std::uint64_t ResidueOf(float value) {
  if (value < static_cast<float>(kModulus) && value == std::floor(value)) return static_cast<std::uint64_t>(value);
  return std::bit_cast<std::uint32_t>(value) % kModulus;
}

Status CheckResidues(std::span<const float> hidden) {
  if (std::all_of(hidden.begin(), hidden.end(), MayBeGiven)) return Status::Ok();
  return {Code::kNotFinite, "a row has a value that no fake layer gives"};
}

std::uint32_t OrDefault(std::uint32_t value, std::uint32_t fallback) { return value == 0 ? fallback : value; }

LoadPlan WithDefaults(LoadPlan plan) {
  plan.fake_layers = OrDefault(plan.fake_layers, kDefaultLayers);
  plan.fake_width = OrDefault(plan.fake_width, kDefaultWidth);
  plan.layers.layer_end = OrDefault(plan.layers.layer_end, plan.fake_layers);
  plan.context_length = OrDefault(plan.context_length, kDefaultContextLength);
  plan.max_sessions = OrDefault(plan.max_sessions, kDefaultSessions);
  plan.ubatch_rows = OrDefault(plan.ubatch_rows, kDefaultUbatchRows);
  return plan;
}

Status CheckPlan(const LoadPlan& plan) {
  if (plan.fake_width < kMinWidth || plan.fake_width > kMaxWidth || plan.fake_layers > kMaxLayers) {
    return {Code::kInvalidArgument, "a figure of the fake model is out of range"};
  }
  if (plan.max_sessions > kMaxSessions || plan.context_length > kMaxContextLength || plan.ubatch_rows > kMaxRows) {
    return {Code::kInvalidArgument, "a limit is out of range"};
  }
  if (plan.layers.layer_begin >= plan.layers.layer_end || plan.layers.layer_end > plan.fake_layers) {
    return {Code::kLayersOutOfRange, "the layers are outside the model"};
  }
  return Status::Ok();
}

ShardFacts FactsOf(const LoadPlan& plan) {
  ShardFacts facts;
  v1::BoundaryContract& contract = facts.contract;
  contract.mutable_layers()->set_layer_begin(plan.layers.layer_begin);
  contract.mutable_layers()->set_layer_end(plan.layers.layer_end);
  contract.set_n_layers(plan.fake_layers);
  contract.set_architecture("fake");
  contract.set_vocab_size(kVocabularySize);
  contract.set_context_length(plan.context_length);
  const bool is_head = plan.layers.layer_begin == 0;
  const bool is_tail = plan.layers.layer_end == plan.fake_layers;
  contract.set_needs_token_ids(is_head);
  if (!is_head) AddHiddenSpec(plan.fake_width, contract.mutable_inputs());
  if (!is_tail) AddHiddenSpec(plan.fake_width, contract.mutable_outputs());
  AddCodecs(&contract);
  contract.set_contract_digest(ContractDigest(plan, contract, "width=" + std::to_string(plan.fake_width)));
  contract.set_recipe("fake");
  contract.mutable_exact_class()->set_backend("fake");
  contract.mutable_exact_class()->set_ubatch(plan.ubatch_rows);
  facts.input_width = is_head ? 0 : plan.fake_width;
  facts.output_width = is_tail ? 0 : plan.fake_width;
  facts.max_sequences = plan.max_sessions;
  facts.kv_cells = OrDefault(plan.kv_cells, plan.max_sessions * plan.context_length);
  facts.batch_rows = plan.ubatch_rows;
  facts.max_step_rows = std::max(plan.ubatch_rows, kDefaultUbatchRows);
  return facts;
}

}  // namespace

Result<std::unique_ptr<ShardEngine>> FakeEngine::Load(const LoadPlan& plan, const LoadObserver& observer) {
  const LoadPlan full = WithDefaults(plan);
  Status status = CheckPlan(full);
  if (!status.ok()) return status;
  if (!observer(0.0f) || !observer(1.0f)) return Status(Code::kCancelled, "the loading was cancelled");
  return std::unique_ptr<ShardEngine>(new FakeEngine(full, FactsOf(full)));
}

FakeEngine::FakeEngine(const LoadPlan& plan, ShardFacts facts)
    : facts_(std::move(facts)),
      layers_(plan.layers),
      width_(plan.fake_width),
      row_time_(std::uint64_t{plan.fake_step_us} * (plan.layers.layer_end - plan.layers.layer_begin)),
      step_time_(plan.fake_step_fixed_us),
      sequences_(plan.max_sessions) {}

bool FakeEngine::IsOpen(SequenceId sequence) const {
  return sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size() &&
         sequences_[static_cast<std::size_t>(sequence)].is_open;
}

Status FakeEngine::Open(SequenceId sequence) {
  if (sequence < 0 || static_cast<std::size_t>(sequence) >= sequences_.size()) {
    return {Code::kTooManySessions, "the sequence's number is out of range"};
  }
  if (IsOpen(sequence)) return {Code::kSessionExists, "the sequence is open"};
  sequences_[static_cast<std::size_t>(sequence)].is_open = true;
  return Status::Ok();
}

Status FakeEngine::Step(std::span<const StepSlice> slices, std::vector<StepResult>* results) {
  const auto begin = std::chrono::steady_clock::now();
  results->assign(slices.size(), {});
  hidden_.clear();
  logits_.clear();
  std::uint64_t rows = 0;
  for (const StepSlice& slice : slices) rows += slice.rows;
  if (rows > facts_.max_step_rows) return {Code::kMessageTooLarge, "there are more rows than a step takes"};
  std::uint64_t rows_run = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    Status status = IsOpen(slices[i].sequence) ? CheckSlice(facts_, Length(slices[i].sequence), slices[i])
                                               : Status(Code::kUnknownSession, "the sequence is not open");
    if (status.ok()) status = CheckResidues(slices[i].hidden);
    if (status.ok()) {
      RunSlice(slices[i]);
      rows_run += slices[i].rows;
    }
    (*results)[i].status = std::move(status);
  }
  // The spans are made last, because hidden_ and logits_ may move while they grow.
  std::size_t hidden_at = 0;
  std::size_t logits_at = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (!(*results)[i].status.ok()) continue;
    const std::size_t hidden_size = std::size_t{slices[i].rows} * facts_.output_width;
    const std::size_t logits_size = facts_.is_tail() ? slices[i].logits_rows.size() * kVocabularySize : 0;
    (*results)[i].hidden = std::span(hidden_).subspan(hidden_at, hidden_size);
    (*results)[i].logits = std::span(logits_).subspan(logits_at, logits_size);
    hidden_at += hidden_size;
    logits_at += logits_size;
  }
  // Sleeps until the step has taken the simulated time, of which the computation above is a part.
  std::this_thread::sleep_until(begin + step_time_ + row_time_ * rows_run);
  return Status::Ok();
}

void FakeEngine::RunSlice(const StepSlice& slice) {
  Sequence* sequence = &sequences_[static_cast<std::size_t>(slice.sequence)];
  std::vector<std::uint64_t> row(width_);
  auto wanted = slice.logits_rows.begin();
  for (std::uint32_t r = 0; r < slice.rows; ++r) {
    for (std::uint32_t i = 0; i < width_; ++i) {
      row[i] = facts_.is_head() ? (slice.token_ids[r] + std::uint64_t{1}) * (2 * i + 3) % kModulus
                                : ResidueOf(slice.hidden[std::size_t{r} * width_ + i]);
    }
    RunRow(sequence, &row);
    if (!facts_.is_tail()) {
      for (const std::uint64_t value : row) hidden_.push_back(static_cast<float>(value));
    } else if (wanted != slice.logits_rows.end() && *wanted == r) {
      AppendLogits(row);
      ++wanted;
    }
  }
}

// For each layer l at position p, with the row h, the layer's state a of the position before, and the modulus M:
// a'[i] = (31 a[i] + h[i] + l + 1) mod M, then h'[i] = (3 h[i] + a'[(i + 1) mod width] + p) mod M.
void FakeEngine::RunRow(Sequence* sequence, std::vector<std::uint64_t>* row) {
  const std::size_t layers = layers_.layer_end - layers_.layer_begin;
  const std::size_t row_states = RowStates();
  const std::uint64_t position = sequence->length;
  sequence->states.resize((position + 1) * row_states, 0);
  std::uint32_t* now = sequence->states.data() + position * row_states;
  const std::uint32_t* before = position == 0 ? nullptr : now - row_states;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::uint32_t* state = now + layer * width_;
    for (std::size_t i = 0; i < width_; ++i) {
      const std::uint64_t last = before == nullptr ? 0 : before[layer * width_ + i];
      state[i] = static_cast<std::uint32_t>((31 * last + (*row)[i] + layers_.layer_begin + layer + 1) % kModulus);
    }
    for (std::size_t i = 0; i < width_; ++i) {
      (*row)[i] = (3 * (*row)[i] + state[(i + 1) % width_] + position) % kModulus;
    }
  }
  ++sequence->length;
}

void FakeEngine::AppendLogits(const std::vector<std::uint64_t>& row) {
  const bool ends = row[0] % 61 == 7;
  for (std::uint32_t v = 0; v < kVocabularySize; ++v) {
    const std::uint64_t residue = (row[v % width_] * (2 * v + 1) + row[(v + 1) % width_]) % kModulus;
    float logit = static_cast<float>(residue) / 4096.0f;
    if (v >= 32 && v <= 126) logit += 16.0f;
    if (v == kEndToken && ends) logit = 64.0f;
    logits_.push_back(logit);
  }
}

Status FakeEngine::Rewind(SequenceId sequence, std::uint64_t length) {
  if (!IsOpen(sequence)) return {Code::kUnknownSession, "the sequence is not open"};
  Sequence& state = sequences_[static_cast<std::size_t>(sequence)];
  if (length > state.length) return {Code::kWrongPosition, "the rewind's position is beyond the sequence's length"};
  state.length = length;
  state.states.resize(length * RowStates());
  return Status::Ok();
}

// The states are kept for every position, so a sequence can be truncated at each, and a kNotTruncated state has no
// bytes.
Result<SequenceState> FakeEngine::Save(SequenceId sequence, StateScope scope) {
  if (!IsOpen(sequence)) return Status(Code::kUnknownSession, "the sequence is not open");
  const Sequence& held = sequences_[static_cast<std::size_t>(sequence)];
  SequenceState state{scope, held.length, {}};
  if (scope == StateScope::kWhole) {
    state.bytes.resize(held.states.size() * sizeof(std::uint32_t));
    std::memcpy(state.bytes.data(), held.states.data(), state.bytes.size());
  }
  return state;
}

Status FakeEngine::Restore(SequenceId sequence, const SequenceState& state) {
  if (state.scope == StateScope::kNotTruncated) return Rewind(sequence, state.length);
  if (!IsOpen(sequence)) return {Code::kUnknownSession, "the sequence is not open"};
  if (state.length > facts_.contract.context_length())
    return {Code::kContextFull, "no KV cells are left for the state's rows"};
  if (state.bytes.size() != state.length * RowStates() * sizeof(std::uint32_t)) {
    return {Code::kEngineFailed, "the bytes are not a state of these layers"};
  }
  Sequence& held = sequences_[static_cast<std::size_t>(sequence)];
  held.length = state.length;
  held.states.resize(state.length * RowStates());
  std::memcpy(held.states.data(), state.bytes.data(), state.bytes.size());
  return Status::Ok();
}

void FakeEngine::Close(SequenceId sequence) {
  if (IsOpen(sequence)) sequences_[static_cast<std::size_t>(sequence)] = {};
}

std::uint64_t FakeEngine::Length(SequenceId sequence) const {
  return IsOpen(sequence) ? sequences_[static_cast<std::size_t>(sequence)].length : 0;
}

bool FakeEngine::IsUsable(SequenceId sequence) const {
  return sequence >= 0 && static_cast<std::size_t>(sequence) < sequences_.size();
}

}  // namespace meshnet
