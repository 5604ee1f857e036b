#include "lib/planfile/CheckCoverage.h"
#include "lib/planfile/CheckTable.h"
#include "lib/planfile/Trace.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace llmc::planfile {
namespace {

int64_t product(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

class Conservation {
public:
  explicit Conservation(const ProgramT &program) : program(program), findings("conservation") {}

  std::vector<Finding> run() {
    checkSources();
    checkLayers();
    checkTable(program, findings);
    checkInputs();
    for (uint32_t s = 0; s < program.stages.size(); ++s) {
      checkStates(s);
      checkUntouched(s);
      if (training())
        checkTouched(s);
      else
        checkResults(s);
    }
    return findings.take();
  }

private:
  bool training() const { return program.mode == Mode::Train; }

  void report(int stage, std::string message, std::string fix, int64_t microBatch = -1,
              std::string procedure = "", int64_t instruction = -1) {
    Finding finding;
    finding.stage = stage;
    finding.procedure = std::move(procedure);
    finding.microBatch = microBatch;
    finding.instruction = instruction;
    finding.message = std::move(message);
    finding.fix = std::move(fix);
    findings.add(std::move(finding));
  }

  // Checks that each element of each source tensor is in exactly one owned parameter of all
  // stages, and that every further copy repeats an owned one on another stage.
  void checkSources() {
    std::vector<std::vector<StridedBox>> owned(program.sources.size());
    std::vector<int> aStage(program.sources.size(), -1);
    for (size_t s = 0; s < program.stages.size(); ++s) {
      for (const auto &state : program.stages[s]->states) {
        if (state->role != StateRole::Parameter)
          continue;
        const ViewT &view = *state->view;
        if (state->owner) {
          owned[view.source].push_back({view.offset, view.strides, state->global_shape});
          aStage[view.source] = static_cast<int>(s);
        } else if (!hasOwner(*state, s)) {
          report(static_cast<int>(s),
                 "parameter '" + state->name + "' is a second copy, but no other stage owns it",
                 "mark exactly one of the copies as owner");
        }
      }
    }
    for (size_t i = 0; i < program.sources.size(); ++i) {
      const SourceTensorT &source = *program.sources[i];
      if (auto fault = coverageFault(std::move(owned[i]), product(source.shape)))
        report(aStage[i],
               "tensor '" + source.name + "' must lie in the owned parameters exactly once: " +
                   *fault,
               "make the views of its parameters a partition of the tensor");
    }
  }

  bool hasOwner(const StateShardT &copy, size_t stage) const {
    for (size_t s = 0; s < program.stages.size(); ++s) {
      if (s == stage)
        continue;
      for (const auto &state : program.stages[s]->states)
        if (state->role == StateRole::Parameter && state->owner && sameView(*state, copy))
          return true;
    }
    return false;
  }

  static bool sameView(const StateShardT &a, const StateShardT &b) {
    return a.view && b.view && a.view->source == b.view->source &&
           a.view->offset == b.view->offset && a.view->strides == b.view->strides &&
           a.global_shape == b.global_shape;
  }

  // Checks that the chunks of all stages together are the layers of the model.
  void checkLayers() {
    std::vector<std::tuple<int64_t, int64_t, int>> held; // first, last, stage
    for (size_t s = 0; s < program.stages.size(); ++s)
      for (const auto &chunk : program.stages[s]->chunks)
        if (chunk->last_layer >= chunk->first_layer)
          held.push_back({chunk->first_layer, chunk->last_layer, static_cast<int>(s)});
    std::sort(held.begin(), held.end());
    int64_t next = 0;
    for (auto [first, last, stage] : held) {
      if (first != next)
        report(stage,
               "each layer must be held once: layers " + std::to_string(first) + " to " +
                   std::to_string(last) + " follow layer " + std::to_string(next - 1),
               "start at layer " + std::to_string(next));
      next = std::max(next, last + 1);
    }
    if (next != static_cast<int64_t>(program.model->layers))
      report(-1,
             "stages hold layers up to " + std::to_string(next - 1) + " of a model with " +
                 std::to_string(program.model->layers) + " layers",
             "give every layer to one stage");
  }

  // Checks that every block which the loader permutes is fed once, and that in a step a rank's
  // rows are the same ones of every input.
  void checkInputs() {
    const InputBindingT *first = nullptr;
    for (const auto &input : program.inputs) {
      std::vector<uint32_t> times(input->block_order.size(), 0);
      for (uint32_t block : input->block_order)
        ++times[block];
      for (size_t b = 0; b < times.size(); ++b)
        if (times[b] != 1)
          report(-1,
                 "block " + std::to_string(b) + " of dim " + std::to_string(input->permuted_dim) +
                     " of input '" + input->name + "' is fed " + std::to_string(times[b]) +
                     " times",
                 "let block_order be a permutation");
      if (!training())
        continue;
      if (!first)
        first = input.get();
      else if (input->batch_axes != first->batch_axes)
        report(-1,
               "ranks take other rows of input '" + input->name + "' than of '" + first->name + "'",
               "cut the rows of all inputs over the same axes, in one order");
    }
  }

  void checkStates(uint32_t s) {
    using StatesOfRole = std::map<std::string, const StateShardT *>;
    std::map<StateRole, StatesOfRole> byRole;
    for (const auto &state : program.stages[s]->states) {
      if (!byRole[state->role].emplace(state->name, state.get()).second)
        report(s, "state '" + state->name + "' appears twice as " +
                      std::string(toString(state->role)),
               "keep one");
      checkParts(s, *state);
    }
    for (uint32_t g = 0; g < program.stages[s]->flat_groups.size(); ++g)
      checkFlat(s, g);
    if (!training())
      return;
    std::vector<StateRole> roles = {StateRole::Accumulator};
    if (program.optimizer == OptimizerKind::AdamW)
      roles.insert(roles.end(), {StateRole::Moment1, StateRole::Moment2});
    const StatesOfRole &parameters = byRole[StateRole::Parameter];
    for (StateRole role : roles)
      for (const auto &[name, parameter] : parameters)
        checkCompanion(s, *parameter, role, byRole[role]);
    for (StateRole role : {StateRole::Moment1, StateRole::Moment2, StateRole::Master})
      for (const auto &[name, state] : byRole[role])
        if (!parameters.count(name) && !ofParameter(*state, parameters))
          report(s, "state '" + name + "' is the " + std::string(toString(role)) +
                        " of no parameter of the stage",
                 "drop it, or keep its parameter on the same stage");
  }

  static bool ofParameter(const StateShardT &state,
                          const std::map<std::string, const StateShardT *> &parameters) {
    return std::any_of(parameters.begin(), parameters.end(), [&](const auto &parameter) {
      return sameView(state, *parameter.second);
    });
  }

  void checkCompanion(uint32_t s, const StateShardT &parameter, StateRole role,
                      const std::map<std::string, const StateShardT *> &states) {
    auto it = states.find(parameter.name);
    if (it == states.end()) // another name for the same part of the source
      it = std::find_if(states.begin(), states.end(), [&](const auto &candidate) {
        return sameView(*candidate.second, parameter);
      });
    std::string what = "parameter '" + parameter.name + "' needs one " +
                       std::string(toString(role)) + " of its elements, ";
    if (it == states.end())
      report(s, what + "it has none", "add the state to the stage");
    else if (it->second->global_shape != parameter.global_shape ||
             (it->second->view && !sameView(*it->second, parameter)))
      report(s, what + "which has others", "give both one shape; each may be cut in its own way");
  }

  // Checks that tensors of a flat buffer lie one after the other from its begin, and that the
  // ranks' parts have room for them. Tensors that other ranks hold have a buffer of their own.
  void checkFlat(uint32_t s, uint32_t g) {
    const FlatGroupT &group = *program.stages[s]->flat_groups[g];
    std::map<std::pair<std::vector<uint32_t>, uint32_t>, std::vector<const StateShardT *>> holders;
    for (const auto &state : program.stages[s]->states)
      if (state->flat && state->flat->group == g)
        holders[{state->only_axes, state->only_at}].push_back(state.get());
    // Adds to those that some ranks hold, as experts, what all of them hold.
    if (auto all = holders.find({}); all != holders.end() && holders.size() > 1) {
      std::vector<const StateShardT *> common = std::move(all->second);
      holders.erase(all);
      for (auto &[key, tensors] : holders)
        tensors.insert(tensors.end(), common.begin(), common.end());
    }
    std::string name = "flat group " + std::to_string(g);
    if (holders.empty())
      report(s, name + " has no tensors", "drop it");
    uint64_t whole = group.length;
    for (uint32_t axis : group.axes)
      whole *= program.mesh->axes[axis]->size;
    for (auto &[key, tensors] : holders) {
      std::stable_sort(tensors.begin(), tensors.end(), [](const auto *a, const auto *b) {
        return a->flat->begin < b->flat->begin;
      });
      uint64_t end = 0;
      for (const StateShardT *state : tensors) {
        if (state->flat->begin != end)
          report(s,
                 "state '" + state->name + "' begins at element " +
                     std::to_string(state->flat->begin) + " of " + name +
                     ", where the tensors before it end at " + std::to_string(end),
                 "lay tensors of a flat buffer one after the other");
        if (state->role != tensors.front()->role)
          report(s, name + " has states of several roles", "give each role a buffer of its own");
        end = state->flat->begin + static_cast<uint64_t>(product(state->local_shape));
      }
      if (end > whole)
        report(s, name + " loses elements: ranks hold " + std::to_string(whole) + " of " +
                      std::to_string(end),
               "round the length up");
    }
  }

  void checkParts(uint32_t s, const StateShardT &state) {
    for (size_t d = 0; d < state.global_shape.size(); ++d) {
      int64_t parts = 1;
      for (uint32_t axis : state.dims[d]->axes)
        parts *= program.mesh->axes[axis]->size;
      if (parts * state.local_shape[d] < state.global_shape[d])
        report(s,
               "state '" + state.name + "' loses elements of dim " + std::to_string(d) + ": " +
                   std::to_string(parts) + " parts of " + std::to_string(state.local_shape[d]) +
                   " for " + std::to_string(state.global_shape[d]),
               "round the local size up");
    }
  }

  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

  // Returns the bytes that procedures of some kinds (of one chunk, unless -1) read or write in
  // slot 0; states have one slot. What a collective writes may be left out: it adds up what ranks
  // have computed, and computes nothing.
  Ranges touched(const StageT &stage, std::initializer_list<ProcedureKind> kinds, bool write,
                 int64_t chunk = -1, bool collectives = true) const {
    Ranges ranges;
    for (const auto &procedure : stage.procedures) {
      if (std::find(kinds.begin(), kinds.end(), procedure->kind) == kinds.end() ||
          (chunk >= 0 && procedure->chunk != chunk))
        continue;
      for (const auto &inst : procedure->instructions) {
        if (!collectives && inst->body.AsCollective())
          continue;
        forEachAccess(*inst, 0, [&](const ByteAccess &a) {
          if (write ? a.write : a.read)
            ranges.push_back({a.begin, a.end});
        });
      }
    }
    return merged(std::move(ranges));
  }
  static Ranges merged(Ranges ranges) {
    std::sort(ranges.begin(), ranges.end());
    Ranges result;
    for (auto [begin, end] : ranges) {
      if (!result.empty() && begin <= result.back().second)
        result.back().second = std::max(result.back().second, end);
      else
        result.push_back({begin, end});
    }
    return result;
  }

  // Returns whether the merged, sorted ranges contain the state's elements; of a flat buffer all
  // of it.
  static bool covers(const Ranges &ranges, const StateShardT &state) {
    uint64_t elements = product(state.local_shape) * byteSize(state.dtype);
    return covers(ranges, state.buffer->offset, state.flat ? state.buffer->size : elements);
  }
  static bool covers(const Ranges &ranges, uint64_t begin, uint64_t size) {
    uint64_t end = begin + size;
    if (begin == end)
      return true;
    auto it = std::upper_bound(ranges.begin(), ranges.end(),
                               std::pair<uint64_t, uint64_t>{begin, ~uint64_t(0)});
    return it != ranges.begin() && std::prev(it)->second >= end;
  }

  static bool isOutput(const StageT &stage, const StateShardT &state) {
    return std::any_of(stage.outputs.begin(), stage.outputs.end(), [&](const auto &output) {
      return output->buffer->offset == state.buffer->offset;
    });
  }

  // Checks that each result is computed by the forward, and written once.
  void checkResults(uint32_t s) {
    const StageT &stage = *program.stages[s];
    Ranges written = touched(stage, {ProcedureKind::Forward}, /*write=*/true);
    for (const auto &result : stage.results) {
      if (!covers(written, result->buffer->offset,
                  product(result->local_shape) * byteSize(result->dtype)))
        report(s, "result '" + result->name + "' is written by no forward",
               "compute it, or drop it");
      checkWrittenOnce(s, *result);
    }
  }

  // Checks that each byte of a result gets one value. An instruction that writes it again must
  // have read it (a reduction in place, a product that is added), or be another part of one
  // operation (the calls of one product share rows).
  void checkWrittenOnce(uint32_t s, const OutputBindingT &result) {
    struct Written {
      uint64_t begin, end;
      const InstructionT *by;
    };
    std::vector<Written> values;
    uint64_t first = result.buffer->offset, last = first + result.buffer->size;
    const StageT &stage = *program.stages[s];
    for (const auto &entry : stage.table)
      for (const auto &inst : stage.procedures[entry->procedure]->instructions) {
        std::vector<ByteAccess> reads, writes;
        forEachAccess(*inst, *entry, [&](const ByteAccess &a) {
          if (a.read && a.begin < last && first < a.end)
            reads.push_back(a);
          if (a.write && a.begin < last && first < a.end)
            writes.push_back(a);
        });
        for (const ByteAccess &a : writes) {
          bool again = std::any_of(reads.begin(), reads.end(), [&](const ByteAccess &read) {
            return read.begin <= a.begin && a.end <= read.end;
          });
          for (const Written &value : values)
            if (!again && value.begin < a.end && a.begin < value.end &&
                value.by->origin != inst->origin)
              report(s,
                     "result '" + result.name + "', written by " +
                         describeBody(program, *value.by) + ", is overwritten by " +
                         describeBody(program, *inst),
                     "give the result bytes of its own until the end of the run", -1,
                     stage.procedures[entry->procedure]->name);
          if (!again)
            values.push_back({a.begin, a.end, inst.get()});
        }
      }
  }

  // Checks that only the update changes parameters and their moments.
  void checkUntouched(uint32_t s) {
    const StageT &stage = *program.stages[s];
    std::map<uint64_t, const StateShardT *> fixed; // by first byte
    for (const auto &state : stage.states)
      if (state->role != StateRole::Accumulator)
        fixed[state->buffer->offset] = state.get();
    for (const auto &entry : stage.table) {
      const ProcedureT &procedure = *stage.procedures[entry->procedure];
      for (size_t i = 0; procedure.kind != ProcedureKind::Update && i < procedure.instructions.size();
           ++i)
        forEachAccess(*procedure.instructions[i], *entry, [&](const ByteAccess &a) {
          auto it = fixed.lower_bound(a.end);
          if (!a.write || it == fixed.begin())
            return;
          const StateShardT &state = *std::prev(it)->second;
          if (state.buffer->offset + state.buffer->size > a.begin)
            report(s, describeBody(program, *procedure.instructions[i]) + " writes into " +
                          std::string(toString(state.role)) + " '" + state.name + "'",
                   "only the update may change it; move the buffer elsewhere", -1, procedure.name,
                   static_cast<int64_t>(i));
        });
    }
  }

  // Returns the bytes that the update reads, or whose sum it does: a reduce-scatter gives each rank a
  // part of it, a launch of the last backward casts it to the type of the sum. Merged and sorted.
  static Ranges used(const StageT &stage, const Ranges &updateReads) {
    Ranges ranges = updateReads;
    for (const auto &procedure : stage.procedures)
      for (const auto &inst : procedure->instructions)
        if (const CollectiveT *collective = inst->body.AsCollective();
            collective && collective->kind == CollectiveKind::ReduceScatter &&
            covers(updateReads, collective->dst->offset, collective->dst->size))
          ranges.push_back({collective->src->offset, collective->src->offset + collective->src->size});
    ranges = merged(std::move(ranges));
    Ranges all = ranges;
    for (const auto &procedure : stage.procedures)
      for (const auto &inst : procedure->instructions)
        if (const LaunchT *launch = inst->body.AsLaunch();
            launch && isLast(procedure->kind) && launch->operands.size() == 2 &&
            launch->operands[0]->access == Access::Read &&
            covers(ranges, launch->operands[1]->buffer->offset, launch->operands[1]->buffer->size)) {
          const BufferRefT &read = *launch->operands[0]->buffer;
          all.push_back({read.offset, read.offset + read.size});
        }
    return merged(std::move(all));
  }

  // Checks that gradients reach the update. One that some backwards add and the last does not, or
  // that no update reads, is dropped; a parameter that no update writes is frozen.
  void checkTouched(uint32_t s) {
    const StageT &stage = *program.stages[s];
    Ranges updateReads = touched(stage, {ProcedureKind::Update}, /*write=*/false);
    Ranges updateWrites = touched(stage, {ProcedureKind::Update}, /*write=*/true);
    Ranges usedBytes = used(stage, updateReads);
    for (uint32_t chunk = 0; chunk < stage.chunks.size(); ++chunk)
      checkContributions(s, chunk);
    for (const auto &state : stage.states) {
      std::string name = std::string(toString(state->role)) + " '" + state->name + "'";
      if (state->role == StateRole::Accumulator) {
        if (!isOutput(stage, *state) && !covers(usedBytes, *state))
          report(s, name + " is read by no update", "use the gradient, or drop it");
      } else if (state->role == StateRole::Parameter && program.optimizer != OptimizerKind::None &&
                 !covers(updateWrites, *state)) {
        report(s, name + " is written by no update", "update every parameter");
      }
    }
  }

  // Checks that all micro-batches of a chunk add to the same gradients, the last one too.
  void checkContributions(uint32_t s, uint32_t chunk) {
    const StageT &stage = *program.stages[s];
    auto has = [&](ProcedureKind kind) {
      return std::any_of(stage.table.begin(), stage.table.end(), [&](const auto &entry) {
        const ProcedureT &procedure = *stage.procedures[entry->procedure];
        return procedure.kind == kind && procedure.chunk == chunk;
      });
    };
    using enum ProcedureKind;
    bool split = has(WeightLast);
    if (!has(split ? Weight : Backward) || !has(split ? WeightLast : BackwardLast))
      return;
    // Counts both halves of a split backward. The sum over data-parallel ranks that the last one
    // begins is no contribution: a stage that reads a parameter, and whose part of the gradient
    // goes to another stage in a message, has none.
    auto contributed = [&](std::initializer_list<ProcedureKind> kinds) {
      return touched(stage, kinds, /*write=*/true, chunk, /*collectives=*/false);
    };
    Ranges plain = contributed({Backward, Weight});
    Ranges last = split ? contributed({Backward, WeightLast}) : contributed({BackwardLast});
    for (const auto &state : stage.states)
      if (state->role == StateRole::Accumulator && covers(plain, *state) != covers(last, *state))
        report(s, "accumulator '" + state->name + "' gets a contribution from " +
                      (covers(plain, *state) ? "all but the last backward"
                                             : "the last backward only"),
               "accumulate the same gradients in both backward procedures");
  }

  const ProgramT &program;
  Findings findings;
};

} // namespace

std::vector<Finding> checkConservation(const ProgramT &program) {
  return Conservation(program).run();
}

} // namespace llmc::planfile
