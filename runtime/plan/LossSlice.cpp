#include "runtime/plan/LossSlice.h"

#include "lib/planfile/Trace.h"
#include "runtime/plan/Shadow.h"

#include <set>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using planfile::ByteAccess;
using planfile::Node;
using planfile::ProgramT;
using planfile::StateRole;
using support::error;
using support::ok;
using support::Status;

namespace {

// Marks the instructions that the loss needs, numbered over all stages and procedures. An
// instruction that one entry of the table needs runs in all entries, so that every rank
// decides alike.
class Slicer {
public:
  explicit Slicer(const ProgramT &program)
      : program(program), trace(planfile::buildTrace(program, 1)), evaluated(evaluatedOutput(program)) {}

  support::Result<LossSlice> run();

private:
  void number();
  uint32_t numberOf(const Node &node) const {
    uint32_t procedure = program.stages[node.stage]->table[node.entry]->procedure;
    return first[node.stage][procedure] + node.index;
  }
  void follow(uint32_t stage);
  void close();
  void want(uint32_t instruction) {
    if (!wanted[instruction])
      pending.push_back(instruction);
    wanted[instruction] = true;
  }
  Status checkStates(const LossSlice &slice) const;

  const ProgramT &program;
  const planfile::Trace trace;
  const std::string_view evaluated;
  std::vector<std::vector<uint32_t>> first; // by stage and procedure
  std::vector<std::set<uint32_t>> sources;  // by instruction: those whose results it uses
  std::vector<bool> wanted;
  std::vector<uint32_t> pending;
};

void Slicer::number() {
  uint32_t next = 0;
  for (const auto &stage : program.stages) {
    first.emplace_back();
    for (const auto &procedure : stage->procedures) {
      first.back().push_back(next);
      next += static_cast<uint32_t>(procedure->instructions.size());
    }
  }
  sources.resize(next);
  wanted.resize(next, false);
}

// Records, for each instruction of `stage`, those that it depends on. Issue order determines
// the last writer: the checkers have shown that every access respects it.
void Slicer::follow(uint32_t stage) {
  Shadow shadow;
  auto writersIn = [&](uint64_t begin, uint64_t end, auto visit) {
    auto [it, last] = shadow.isolate(begin, end);
    for (; it != last; ++it)
      if (it->second.writer != kInitialWriter)
        visit(it->second.writer);
  };
  for (size_t n = trace.stageBegin[stage]; n < trace.stageBegin[stage + 1]; ++n) {
    const Node node = trace.nodes[n];
    uint32_t self = numberOf(node);
    auto forEach = [&](auto visit) {
      planfile::forEachAccess(*node.inst, trace.entryOf(node), visit);
    };
    forEach([&](const ByteAccess &a) {
      if (a.read)
        writersIn(a.begin, a.end, [&](uint32_t writer) { sources[self].insert(writer); });
    });
    forEach([&](const ByteAccess &a) {
      if (a.write)
        shadow.overwrite(a.begin, a.end, self, a.lane, false);
    });
    if (node.type == Body::Recv && node.partner >= 0)
      sources[self].insert(numberOf(trace.nodes[node.partner]));
    if (node.join >= 0)
      for (uint32_t member : trace.joins[node.join])
        sources[self].insert(numberOf(trace.nodes[member]));
  }
  for (const auto &output : program.stages[stage]->outputs)
    if (output->name == evaluated || output->name == "tokens" || output->name == "moe_lost")
      writersIn(output->buffer->offset, output->buffer->offset + output->buffer->size,
                [&](uint32_t writer) { want(writer); });
}

void Slicer::close() {
  while (!pending.empty()) {
    uint32_t instruction = pending.back();
    pending.pop_back();
    for (uint32_t source : sources[instruction])
      want(source);
  }
}

// Fails if the slice writes a state other than a gradient accumulator, which every step
// recomputes. A state has the same offset in all slots, so one entry of each procedure
// suffices.
Status Slicer::checkStates(const LossSlice &slice) const {
  for (size_t s = 0; s < program.stages.size(); ++s) {
    const planfile::StageT &stage = *program.stages[s];
    auto writes = [&](const ByteAccess &a, const planfile::StateShardT &state) {
      return a.write && state.role != StateRole::Accumulator &&
             a.begin < state.buffer->offset + state.buffer->size && state.buffer->offset < a.end;
    };
    std::set<uint32_t> seen;
    for (const auto &entry : stage.table) {
      const auto &procedure = *stage.procedures[entry->procedure];
      if (!seen.insert(entry->procedure).second)
        continue;
      std::string changed;
      for (size_t i = 0; i < procedure.instructions.size(); ++i)
        if (slice[s][entry->procedure][i])
          planfile::forEachAccess(*procedure.instructions[i], *entry, [&](const ByteAccess &a) {
            for (const auto &state : stage.states)
              if (writes(a, *state))
                changed = state->name;
          });
      if (!changed.empty())
        return error("this program cannot evaluate: what computes the loss also writes '", changed,
                     "'");
    }
  }
  return ok();
}

support::Result<LossSlice> Slicer::run() {
  number();
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage)
    follow(stage);
  close();
  LossSlice slice;
  for (size_t s = 0; s < program.stages.size(); ++s) {
    slice.emplace_back();
    for (size_t p = 0; p < program.stages[s]->procedures.size(); ++p) {
      slice[s].emplace_back();
      const auto &instructions = program.stages[s]->procedures[p]->instructions;
      for (size_t i = 0; i < instructions.size(); ++i) {
        Body type = instructions[i]->body.type;
        bool always = type == Body::Wait || type == Body::Record || type == Body::Send ||
                      type == Body::Recv;
        slice[s][p].push_back(always || wanted[first[s][p] + i]);
      }
    }
  }
  if (Status s = checkStates(slice); !s)
    return s.takeError();
  return slice;
}

} // namespace

std::string_view runtime::evaluatedOutput(const ProgramT &program) {
  for (const auto &stage : program.stages)
    for (const auto &output : stage->outputs)
      if (output->name == "cross_entropy")
        return "cross_entropy";
  return "loss";
}

support::Result<LossSlice> runtime::lossSlice(const ProgramT &program) {
  return Slicer(program).run();
}
