// Engines of consecutive layer ranges, and what the whole model gives that the library loads its ordinary way.
#ifndef MESHNET_TESTS_ENGINE_LLAMA_ENGINE_CHAIN_H_
#define MESHNET_TESTS_ENGINE_LLAMA_ENGINE_CHAIN_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/llama_engine.h"
#include "engine/llama_range_chain.h"

namespace meshnet::range {

// Rows of one sequence in a step. `all_logits` false asks for the last row's only.
struct Part {
  SequenceId sequence = 0;
  std::vector<std::uint32_t> tokens;
  bool all_logits = true;
};
using Step = std::vector<Part>;  // by ascending sequence
// Of every row that was asked for, in the step's order: [vocabulary].
using StepLogits = std::vector<std::vector<float>>;

struct EngineOptions {
  std::uint32_t context_length = 512;
  std::uint32_t sessions = 3;
  std::uint32_t ubatch_rows = 64;
  bool keep_rewind_states = true;
};

// The whole model, with the context that the engine asks for.
class WholeModel {
 public:
  WholeModel(const std::string& path, const EngineOptions& options)
      : stage_(path, 0, 0, Options(options)), lengths_(options.sessions, 0) {}

  StepLogits Run(const Step& step) {
    Rows rows;
    for (const Part& part : step) {
      llama_pos& length = lengths_.at(static_cast<std::size_t>(part.sequence));
      for (std::size_t i = 0; i < part.tokens.size(); ++i) {
        rows.push_back({static_cast<llama_token>(part.tokens[i]), length++, part.sequence,
                        part.all_logits || i + 1 == part.tokens.size()});
      }
    }
    if (stage_.Decode(rows, {}) != 0) throw std::runtime_error("the whole model does not decode");
    StepLogits logits;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].wants_logits) continue;
      const std::span<const float> row = stage_.Logits(static_cast<int>(i));
      logits.emplace_back(row.begin(), row.end());
    }
    return logits;
  }

  // What the library does where it is asked; a sliding window says yes too often.
  bool Rewind(SequenceId sequence, std::uint64_t length) {
    lengths_.at(static_cast<std::size_t>(sequence)) = static_cast<llama_pos>(length);
    return llama_memory_seq_rm(stage_.memory(), sequence, static_cast<llama_pos>(length), -1);
  }

  std::uint32_t vocabulary() const {
    return static_cast<std::uint32_t>(llama_vocab_n_tokens(llama_model_get_vocab(stage_.model())));
  }

 private:
  static ChainOptions Options(const EngineOptions& options) {
    ChainOptions chain;
    chain.context_cells = options.context_length * options.sessions;
    chain.ubatch_rows = options.ubatch_rows;
    chain.sequences = options.sessions;
    chain.unified_kv = false;
    chain.whole_windows = false;
    chain.flash_attention = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    return chain;
  }

  Stage stage_;
  std::vector<llama_pos> lengths_;
};

// One engine a range; every sequence is open on all of them. Token ids travel where a contract says so and nowhere
// else.
class EngineChain {
 public:
  // `cuts` are the first layers of the second, third, ... range.
  EngineChain(const std::string& path, std::vector<std::uint32_t> cuts, const EngineOptions& options) {
    cuts.push_back(0);  // all that is left
    LoadPlan plan;
    plan.gguf_path = path;
    plan.context_length = options.context_length;
    plan.max_sessions = options.sessions;
    plan.ubatch_rows = options.ubatch_rows;
    plan.threads = 1;
    plan.flash_attention = true;
    plan.keep_rewind_states = options.keep_rewind_states;
    plan.artifact_digest = std::string(32, 'a');
    for (const std::uint32_t end : cuts) {
      plan.layers.layer_end = end;
      Result<std::unique_ptr<ShardEngine>> loaded = LoadLlamaEngine(plan, [](float) { return true; });
      if (!loaded.ok()) throw std::runtime_error(loaded.status().message());
      engines_.push_back(std::move(loaded.value()));
      for (std::uint32_t i = 0; i < options.sessions; ++i) Require(engines_.back()->Open(static_cast<SequenceId>(i)));
      plan.layers.layer_begin = end;
    }
  }

  // Changes the rows at every seam; for negative controls.
  void set_seam_filter(std::function<void(std::span<float>)> filter) { filter_ = std::move(filter); }

  StepLogits Run(const Step& step) {
    std::vector<std::vector<float>> hidden(step.size());
    StepLogits logits;
    for (const auto& engine : engines_) {
      std::vector<StepResult> results;
      const std::vector<std::vector<std::uint32_t>> wanted = WantedRows(step);
      std::vector<StepSlice> slices;
      for (std::size_t i = 0; i < step.size(); ++i) slices.push_back(Slice(*engine, step[i], hidden[i], wanted[i]));
      Require(engine->Step(slices, &results));
      for (std::size_t i = 0; i < step.size(); ++i) {
        Require(results.at(i).status);
        hidden[i].assign(results[i].hidden.begin(), results[i].hidden.end());
        if (filter_) filter_(hidden[i]);
        if (engine->facts().is_tail()) Append(results[i].logits, engine->facts().contract.vocab_size(), &logits);
      }
    }
    return logits;
  }

  // Rewinds everywhere, or nowhere. Returns whether it did.
  // std::runtime_error: the engines did not agree, or one failed in another way.
  bool Rewind(SequenceId sequence, std::uint64_t length) {
    std::size_t rewound = 0;
    for (const auto& engine : engines_) {
      const std::uint64_t before = engine->Length(sequence);
      const Status status = engine->Rewind(sequence, length);
      if (status.ok()) {
        ++rewound;
      } else if (status.code() != Code::kRewindRefused || engine->Length(sequence) != before) {
        throw std::runtime_error("a rewind failed: " + status.message());
      }
    }
    if (rewound != 0 && rewound != engines_.size()) throw std::runtime_error("some shards rewound and others did not");
    return rewound != 0;
  }

  // Every engine's state of one sequence.
  std::vector<SequenceState> Save(SequenceId sequence) {
    std::vector<SequenceState> states;
    for (const auto& engine : engines_) {
      Result<SequenceState> state = engine->Save(sequence, StateScope::kWhole);
      Require(state.status());
      states.push_back(std::move(state.value()));
    }
    return states;
  }
  void Restore(SequenceId sequence, const std::vector<SequenceState>& states) {
    for (std::size_t i = 0; i < engines_.size(); ++i) Require(engines_[i]->Restore(sequence, states.at(i)));
  }

  std::uint64_t Length(SequenceId sequence) const { return engines_.back()->Length(sequence); }
  const std::vector<std::unique_ptr<ShardEngine>>& engines() const { return engines_; }

 private:
  static void Require(const Status& status) {
    if (!status.ok()) throw std::runtime_error(status.message());
  }

  static std::vector<std::vector<std::uint32_t>> WantedRows(const Step& step) {
    std::vector<std::vector<std::uint32_t>> wanted(step.size());
    for (std::size_t i = 0; i < step.size(); ++i) {
      wanted[i].resize(step[i].tokens.size());
      std::iota(wanted[i].begin(), wanted[i].end(), 0U);
      if (!step[i].all_logits) wanted[i].erase(wanted[i].begin(), wanted[i].end() - 1);
    }
    return wanted;
  }

  static StepSlice Slice(const ShardEngine& engine, const Part& part, std::span<const float> hidden,
                         std::span<const std::uint32_t> wanted) {
    StepSlice slice;
    slice.sequence = part.sequence;
    slice.position = engine.Length(part.sequence);
    slice.rows = static_cast<std::uint32_t>(part.tokens.size());
    if (engine.facts().contract.needs_token_ids()) slice.token_ids = part.tokens;
    slice.hidden = hidden;
    if (engine.facts().is_tail()) slice.logits_rows = wanted;
    return slice;
  }

  static void Append(std::span<const float> rows, std::size_t vocabulary, StepLogits* logits) {
    for (; !rows.empty(); rows = rows.subspan(vocabulary))
      logits->emplace_back(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(vocabulary));
  }

  std::vector<std::unique_ptr<ShardEngine>> engines_;
  std::function<void(std::span<float>)> filter_;
};

}  // namespace meshnet::range

#endif  // MESHNET_TESTS_ENGINE_LLAMA_ENGINE_CHAIN_H_
