// Whatever is taken out of a sound plan is found, or leaves all that a step computes: an
// interpreter that knows nothing but bytes says which.
#include "lib/planfile/Check.h"
#include "lib/planfile/Trace.h"
#include "test/planfile/ChunkPlan.h"
#include "test/planfile/PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace llmc::planfile;
using namespace llmc::test;

namespace {

using Rng = std::mt19937;

size_t draw(Rng &rng, size_t below) { return static_cast<size_t>(rng() % below); }

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return (x ^ (x >> 29)) * 0x94d049bb133111ebull;
}

// Each byte is a number that stands for how it was computed.
class ByteMachine {
public:
  explicit ByteMachine(const StageT &stage) : stage(stage), memory(stage.arena_bytes) {
    for (size_t i = 0; i < memory.size(); ++i)
      memory[i] = mix(17, i);
  }

  // Returns the symbols in the bytes that the host sees of two steps: outputs after each,
  // states other than sums at the end.
  std::vector<uint64_t> run() {
    std::vector<uint64_t> seen;
    auto see = [&](const BufferRefT &b) {
      seen.insert(seen.end(), memory.begin() + static_cast<ptrdiff_t>(b.offset),
                  memory.begin() + static_cast<ptrdiff_t>(b.offset + b.size));
    };
    for (step = 0; step < 2; ++step) {
      for (const auto &scalar : stage.host_scalars)
        for (uint64_t b = 0; b < scalar->buffer->size; ++b)
          memory[scalar->buffer->offset + b] = mix(mix(23, step), b);
      for (const auto &entry : stage.table)
        for (const auto &inst : stage.procedures[entry->procedure]->instructions)
          execute(*inst, *entry);
      for (const auto &output : stage.outputs)
        see(*output->buffer);
    }
    for (const auto &state : stage.states)
      if (state->role != StateRole::Accumulator)
        see(*state->buffer);
    return seen;
  }

private:
  void execute(const InstructionT &inst, const EntryT &entry) {
    uint64_t value = static_cast<uint64_t>(inst.body.type);
    if (const LaunchT *launch = inst.body.AsLaunch())
      value = mix(value, launch->kernel);
    if (const FeedT *feed = inst.body.AsFeed())
      value = mix(mix(mix(value, feed->input), step), entry.micro_batch);
    forEachAccess(inst, entry, [&](const ByteAccess &a) {
      for (uint64_t b = a.begin; a.read && b < a.end; ++b)
        value = mix(value, memory[b]);
    });
    uint64_t operand = 0;
    forEachAccess(inst, entry, [&](const ByteAccess &a) {
      ++operand;
      for (uint64_t b = a.begin; a.write && b < a.end; ++b)
        memory[b] = inst.body.type == Body::Fill ? 0 : mix(mix(value, operand), b - a.begin);
    });
  }

  const StageT &stage;
  std::vector<uint64_t> memory;
  uint64_t step = 0;
};

// Draws what the procedures of a stage compute. Tensors of one procedure have bytes in turn,
// some are overwritten in place by what is computed of them.
class Drawer {
public:
  Drawer(ProgramT &program, Rng &rng) : program(program), stage(*program.stages[0]), rng(rng) {}

  void run() {
    for (const auto &state : stage.states)
      (state->role == StateRole::Accumulator ? sums : parameters).push_back(*state->buffer);
    std::swap(*std::find_if(sums.begin(), sums.end(), [](auto &b) { return b.size == 4; }),
              sums.back());
    loss = sums.back();
    sums.pop_back();
    BufferRefT x = bufferOf(program, 0, "x"), y = bufferOf(program, 0, "y"), labels;
    for (const auto &inst : procedureOf(program, 0, ProcedureKind::Forward).instructions)
      if (const FeedT *feed = inst->body.AsFeed(); feed && feed->input == 1)
        labels = *feed->dst;
    scratch = stage.arena_bytes;
    for (const auto &procedure : stage.procedures) {
      if (procedure->kind == ProcedureKind::Begin)
        continue;
      list.clear();
      live = parameters;
      switch (procedure->kind) {
      case ProcedureKind::Forward:
        feed(0, x), feed(1, labels);
        live.push_back(x);
        compute(2 + draw(rng, 6));
        launch({live.back(), labels}, {y});
        launch({y, labels, loss}, {loss});
        break;
      case ProcedureKind::Backward:
        backward = draw(rng, ~0u);
        [[fallthrough]];
      case ProcedureKind::BackwardLast: {
        Rng same(backward); // both halves alike
        std::swap(rng, same);
        live.insert(live.end(), {x, y, labels});
        compute(1 + draw(rng, 5));
        for (const BufferRefT &sum : sums) {
          compute(draw(rng, 2));
          draw(rng, 3) ? launch({live.back(), x, sum}, {sum}) : product(live.back(), y, sum);
        }
        std::swap(rng, same);
        break;
      }
      default:
        live = sums;
        compute(1 + draw(rng, 3));
        BufferRefT norm = live.back(), lr = *stage.host_scalars[0]->buffer;
        for (size_t i = 0; i < parameters.size(); ++i)
          launch({lr, norm, sums[i], parameters[i]}, {parameters[i]});
        launch({loss}, {*stage.outputs[0]->buffer});
      }
      place();
      procedure->instructions = std::move(list);
    }
    stage.arena_bytes = end;
    stage.live_bytes = peakLiveBytes(program, 0);
  }

private:
  template <class T> void emit(T body) {
    auto inst = std::make_unique<InstructionT>();
    inst->body.Set(std::move(body));
    list.push_back(std::move(inst));
  }
  static std::unique_ptr<BufferRefT> ref(const BufferRefT &b) {
    return std::make_unique<BufferRefT>(b);
  }
  void feed(uint32_t input, const BufferRefT &to) {
    FeedT body;
    body.input = input;
    body.dst = ref(to);
    emit(std::move(body));
  }
  void launch(const std::vector<BufferRefT> &reads, const std::vector<BufferRefT> &writes) {
    LaunchT body;
    body.rows = 4;
    body.kernel = static_cast<uint32_t>(draw(rng, program.kernels.size()));
    for (bool write : {false, true})
      for (const BufferRefT &b : write ? writes : reads) {
        body.operands.push_back(std::make_unique<OperandT>());
        body.operands.back()->buffer = ref(b);
        body.operands.back()->access = write ? Access::Write : Access::Read;
      }
    emit(std::move(body));
  }
  void product(const BufferRefT &a, const BufferRefT &b, const BufferRefT &c, bool add = true) {
    MatmulT body;
    body.batch = body.m = body.n = body.k = 1;
    body.a = ref(a), body.b = ref(b), body.c = ref(c);
    body.a_strides = body.b_strides = body.c_strides = {0, 0, 0};
    body.accumulate = add;
    body.fallback = 4;
    emit(std::move(body));
  }

  // New tensors, of which the last one is at the end of `live`; until it is placed a
  // tensor's offset is its number.
  void compute(size_t count) {
    for (; count > 0; --count) {
      BufferRefT made, a = live.back(), b = live[draw(rng, live.size())];
      made.size = 64;
      made.tensor = ++tensors;
      if (a.tensor && a.tensor != b.tensor && draw(rng, 3) == 0) {
        inPlace[made.tensor] = a.tensor;
        std::erase_if(live, [&](const BufferRefT &l) { return l.tensor == a.tensor; });
        launch({a, b}, {made});
      } else if (draw(rng, 3) == 0) {
        product(a, b, made, false);
      } else {
        launch({a, b}, {made});
      }
      live.push_back(made);
    }
  }

  // First fit: two tensors share bytes if one is read for the last time before the other
  // is written.
  void place() {
    struct Span {
      size_t first, last;
      uint64_t offset;
    };
    std::map<uint32_t, Span> spans; // by the first tensor of those in place
    auto root = [&](uint32_t tensor) {
      while (inPlace.count(tensor))
        tensor = inPlace[tensor];
      return tensor;
    };
    auto forEach = [&](size_t i, auto visit) {
      if (LaunchT *launch = list[i]->body.AsLaunch())
        for (auto &operand : launch->operands)
          visit(*operand->buffer);
      if (MatmulT *matmul = list[i]->body.AsMatmul())
        visit(*matmul->a), visit(*matmul->b), visit(*matmul->c);
    };
    for (size_t i = 0; i < list.size(); ++i)
      forEach(i, [&](BufferRefT &b) {
        if (b.tensor)
          spans.try_emplace(root(b.tensor), Span{i, i, 0}).first->second.last = i;
      });
    for (auto &[tensor, span] : spans) {
      span.offset = scratch;
      for (bool moved = true; moved;) {
        moved = false;
        for (auto &[before, other] : spans)
          if (before < tensor && other.offset == span.offset && span.first <= other.last &&
              other.first <= span.last)
            span.offset += 64, moved = true;
      }
      end = std::max(end, span.offset + 64);
    }
    for (size_t i = 0; i < list.size(); ++i)
      forEach(i, [&](BufferRefT &b) {
        if (b.tensor)
          b.offset = spans.at(root(b.tensor)).offset;
      });
  }

  ProgramT &program;
  StageT &stage;
  Rng &rng;
  uint32_t backward = 0, tensors = 0;
  uint64_t scratch = 0, end = 0;
  std::vector<BufferRefT> parameters, sums, live;
  BufferRefT loss;
  std::map<uint32_t, uint32_t> inPlace;
  std::vector<std::unique_ptr<InstructionT>> list;
};

ProgramT drawPlan(Rng &rng) {
  ProgramT program =
      makePlan({.stages = 1, .microBatches = 1 + static_cast<unsigned>(draw(rng, 3)), .dp = 1});
  Drawer(program, rng).run();
  return program;
}

std::string nameOfChecker(ProgramT &program) {
  updateLiveBytes(program);
  std::vector<Finding> findings = checkAll(program);
  return findings.empty() ? "" : findings.front().checker;
}

bool computes(const InstructionT &inst) {
  return inst.body.type != Body::Record && inst.body.type != Body::Wait;
}

// Returns whether anything reads what the instruction writes: the first stage computes the gradient
// of its input.
bool isRead(const StageT &stage, const InstructionT &inst) {
  bool writes = false, found = false;
  forEachAccess(inst, 0, [&](const ByteAccess &w) {
    auto meets = [&](uint64_t begin, uint64_t end) { return begin < w.end && w.begin < end; };
    writes |= w.write;
    for (const auto &state : stage.states)
      found |= w.write && meets(state->buffer->offset, state->buffer->offset + state->buffer->size);
    for (const BufferRefT *buffer : readByHost(stage))
      found |= w.write && meets(buffer->offset, buffer->offset + buffer->size);
    for (const auto &procedure : stage.procedures)
      for (const auto &other : procedure->instructions)
        forEachAccess(*other, 0, [&](const ByteAccess &r) {
          found |= w.write && r.read && meets(r.begin, r.end);
        });
  });
  return found || !writes;
}

} // namespace

TEST(CheckRemoval, RemovedInstructionsAreFound) {
  Rng rng(5);
  std::map<std::string, int> found;
  int harmless = 0;
  for (int i = 0; i < 150; ++i) {
    ProgramT program = drawPlan(rng);
    std::vector<Finding> findings = checkAll(program);
    EXPECT_TRUE(findings.empty()) << formatFindings(findings);
    std::vector<uint64_t> right = ByteMachine(*program.stages[0]).run();
    for (size_t p = 0; p < program.stages[0]->procedures.size(); ++p)
      for (size_t at = 0; at < program.stages[0]->procedures[p]->instructions.size(); ++at) {
        ProgramT changed(program);
        StageT &stage = *changed.stages[0];
        auto &list = stage.procedures[p]->instructions;
        list.erase(list.begin() + static_cast<ptrdiff_t>(at));
        bool same = ByteMachine(stage).run() == right;
        std::string checker = nameOfChecker(changed);
        EXPECT_TRUE(same || !checker.empty()) << "plan " + std::to_string(i) + ": nobody misses " +
                                                     stage.procedures[p]->name + "[" +
                                                     std::to_string(at) + "]";
        same ? ++harmless : ++found[checker];
      }
  }
  EXPECT_TRUE(found["tensors"] > 500 && found["updates"] > 500 && harmless > 50);
}

// Checks that an instruction swapped with the one before it is found: a product before its operand.
TEST(CheckRemoval, OperandsReadTooEarlyAreFound) {
  Rng rng(6);
  int found = 0, same = 0;
  for (int i = 0; i < 150; ++i) {
    ProgramT program = drawPlan(rng);
    std::vector<uint64_t> right = ByteMachine(*program.stages[0]).run();
    for (size_t p = 0; p < program.stages[0]->procedures.size(); ++p)
      for (size_t at = 1; at < program.stages[0]->procedures[p]->instructions.size(); ++at) {
        ProgramT changed(program);
        StageT &stage = *changed.stages[0];
        auto &list = stage.procedures[p]->instructions;
        std::swap(list[at - 1], list[at]);
        if (ByteMachine(stage).run() == right) {
          ++same;
          continue;
        }
        ++found;
        EXPECT_TRUE(!nameOfChecker(changed).empty())
            << "plan " + std::to_string(i) + ": nobody sees " + stage.procedures[p]->name + "[" +
                   std::to_string(at) + "] too early";
      }
  }
  EXPECT_TRUE(found > 500 && same > 500);
}

// In plans of several stages each instruction is needed.
TEST(CheckRemoval, RemovedInstructionsOfPipelinesAreFound) {
  std::vector<ProgramT> programs;
  programs.push_back(makePlan({}));
  programs.push_back(makePlan({.gpipe = true, .stages = 3, .launches = 3}));
  programs.push_back(makePlan({.stages = 2, .microBatches = 1}));
  programs.push_back(makeInferencePlan(2));
  programs.push_back(*makeChunkPlan({}));
  for (const ProgramT &program : programs)
    for (size_t s = 0; s < program.stages.size(); ++s)
      for (size_t p = 0; p < program.stages[s]->procedures.size(); ++p)
        for (size_t at = 0; at < program.stages[s]->procedures[p]->instructions.size(); ++at) {
          const ProcedureT &procedure = *program.stages[s]->procedures[p];
          const InstructionT &inst = *procedure.instructions[at];
          bool runs = std::any_of(program.stages[s]->table.begin(), program.stages[s]->table.end(),
                                  [&](const auto &entry) { return entry->procedure == p; });
          if (!runs || !computes(inst) || inst.body.type == Body::Collective ||
              !isRead(*program.stages[s], inst))
            continue; // the sum over ranks of what is there is there, too
          ProgramT changed(program);
          auto &list = changed.stages[s]->procedures[p]->instructions;
          list.erase(list.begin() + static_cast<ptrdiff_t>(at));
          EXPECT_TRUE(!nameOfChecker(changed).empty())
              << "nobody misses " + procedure.name + "[" + std::to_string(at) + "], " +
                     describeBody(program, inst) + " of stage " + std::to_string(s);
        }
}
