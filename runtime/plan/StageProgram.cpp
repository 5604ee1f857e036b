#include "runtime/plan/StageProgram.h"

#include "lib/planfile/Trace.h"

#include <algorithm>
#include <map>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;

StageProgram::StageProgram(const planfile::ProgramT &program, uint32_t stage)
    : plan(program.stages[stage].get()), stage(stage),
      instances(planfile::slotNumbers(*plan).back() + 1) {
  for (const auto &procedure : plan->procedures) {
    Procedure made;
    made.firstOp = static_cast<uint32_t>(ops.size());
    made.byStream.resize(plan->streams);
    for (const auto &instruction : procedure->instructions) {
      made.byStream[instruction->stream].push_back(static_cast<uint32_t>(ops.size()));
      addOp(*instruction, made);
    }
    procedures.push_back(std::move(made));
  }
  addTable();
  resolveEvents();
  findCommits();
}

void StageProgram::addTable() {
  std::vector<uint32_t> number = planfile::slotNumbers(*plan);
  std::vector<size_t> first; // by entry: index into `lanes`
  for (const auto &entry : plan->table) {
    first.push_back(lanes.size());
    for (uint32_t lane = 0; lane <= entry->more.size(); ++lane) {
      planfile::SlotRef at = planfile::slotOf(*entry, lane);
      lanes.push_back({at.slot(), at.micro_batch(), number[at.pool()] + at.slot()});
    }
    table.push_back({entry->procedure, static_cast<uint32_t>(waits.size()), nullptr,
                     static_cast<uint32_t>(entry->more.size()) + 1});
    waits.resize(waits.size() + procedures[entry->procedure].waits);
  }
  for (size_t e = 0; e < table.size(); ++e)
    table[e].lanes = lanes.data() + first[e];
}

void StageProgram::addBuffer(const planfile::BufferRefT &ref) {
  buffers.push_back({ref.offset, ref.slot_stride, ref.size, 0, ref.lane});
}

void StageProgram::addScalar(const planfile::CoordExprT &scalar) {
  Scalar made{scalar.base, static_cast<uint32_t>(coefs.size()), 0};
  if (std::any_of(scalar.coefs.begin(), scalar.coefs.end(), [](int64_t c) { return c; })) {
    made.coefs = static_cast<uint32_t>(scalar.coefs.size());
    coefs.insert(coefs.end(), scalar.coefs.begin(), scalar.coefs.end());
  }
  scalars.push_back(made);
}

int64_t StageProgram::valueOf(const Scalar &scalar, const std::vector<uint32_t> &coordinate) const {
  // Computes in unsigned arithmetic, as planfile::evaluate() does.
  uint64_t value = static_cast<uint64_t>(scalar.base);
  for (uint32_t c = 0; c < scalar.coefs; ++c)
    value += static_cast<uint64_t>(coefs[scalar.firstCoef + c]) * coordinate[c];
  return static_cast<int64_t>(value);
}

void StageProgram::addBuffers(const planfile::BodyUnion &body) {
  switch (body.type) {
  case Body::Launch:
    for (const auto &operand : body.AsLaunch()->operands)
      addBuffer(*operand->buffer);
    return;
  case Body::Matmul:
    addBuffer(*body.AsMatmul()->a);
    addBuffer(*body.AsMatmul()->b);
    addBuffer(*body.AsMatmul()->c);
    if (const planfile::RoutingT *routing = body.AsMatmul()->routing.get())
      addBuffer(*routing->routes);
    return;
  case Body::Collective:
    addBuffer(*body.AsCollective()->src);
    addBuffer(*body.AsCollective()->dst);
    if (const planfile::RowCountsT *rows = body.AsCollective()->rows.get()) {
      addBuffer(*rows->sent);
      addBuffer(*rows->received);
    }
    return;
  case Body::Copy:
    addBuffer(*body.AsCopy()->src);
    addBuffer(*body.AsCopy()->dst);
    return;
  case Body::Fill:
    addBuffer(*body.AsFill()->dst);
    return;
  case Body::Feed:
    addBuffer(*body.AsFeed()->dst);
    return;
  case Body::Send:
    for (const auto &part : body.AsSend()->parts)
      addBuffer(*part);
    return;
  case Body::Recv:
    for (const auto &part : body.AsRecv()->parts)
      addBuffer(*part);
    return;
  case Body::Record:
  case Body::Wait:
  case Body::NONE:
    return;
  }
}

void StageProgram::addOp(const planfile::InstructionT &instruction, Procedure &procedure) {
  const planfile::BodyUnion &body = instruction.body;
  uint32_t self = static_cast<uint32_t>(ops.size());
  Op op;
  op.kind = body.type;
  op.stream = instruction.stream;
  op.lane = static_cast<uint8_t>(planfile::laneOf(instruction));
  op.origin = instruction.origin;
  op.firstBuffer = static_cast<uint32_t>(buffers.size());
  addBuffers(body);
  op.buffers = static_cast<uint32_t>(buffers.size()) - op.firstBuffer;
  if (const planfile::LaunchT *launch = body.AsLaunch()) {
    op.index = launch->kernel;
    op.rows = launch->rows;
    op.hasRoutes = bool(launch->routes);
    op.firstScalar = static_cast<uint32_t>(scalars.size());
    op.scalars = static_cast<uint32_t>(launch->scalars.size());
    for (const auto &scalar : launch->scalars)
      addScalar(*scalar);
  } else if (const planfile::MatmulT *matmul = body.AsMatmul()) {
    op.index = static_cast<uint32_t>(matmuls.size());
    op.rows = matmul->batch * matmul->m;
    if (matmul->routing) {
      op.firstScalar = static_cast<uint32_t>(scalars.size());
      op.scalars = 1;
      addScalar(*matmul->routing->first);
    }
    matmuls.push_back(matmul);
  } else if (const planfile::CollectiveT *collective = body.AsCollective()) {
    op.index = static_cast<uint32_t>(collectives.size());
    collectives.push_back(collective);
    collectiveOps.push_back(self);
  } else if (op.kind == Body::Send || op.kind == Body::Recv) {
    op.index = static_cast<uint32_t>(messageOps.size());
    if (planfile::messageOf(instruction)->grouped)
      ++ops[groupBegin].members;
    else
      groupBegin = self;
    messageOps.push_back(self);
  } else if (const planfile::FeedT *feed = body.AsFeed()) {
    op.index = feed->input;
  } else if (const planfile::RecordT *record = body.AsRecord()) {
    op.wholeStep = record->whole_step;
    std::pair<uint32_t, uint8_t> recorder{record->event, op.stream};
    auto at = std::find(recorders.begin(), recorders.end(), recorder);
    op.index = static_cast<uint32_t>(at - recorders.begin()) * instances;
    if (at == recorders.end())
      recorders.push_back(recorder);
    counters = static_cast<uint32_t>(recorders.size()) * instances;
  } else if (const planfile::WaitT *wait = body.AsWait()) {
    op.wholeStep = wait->whole_step;
    op.index = procedure.waits++;
  }
  ops.push_back(op);
}

const planfile::InstructionT &StageProgram::instructionOf(uint32_t op) const {
  // Ops are numbered procedure after procedure.
  size_t p = 0;
  while (p + 1 < procedures.size() && procedures[p + 1].firstOp <= op)
    ++p;
  return *plan->procedures[p]->instructions[op - procedures[p].firstOp];
}

// Resolves each wait to the counter and value of the most recent record before it. That
// record is known statically, since entries, and the instructions of each, are issued in
// order.
void StageProgram::resolveEvents() {
  std::vector<uint32_t> raised(counters, 0);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> latest; // (event, instance) -> counter
  for (const Entry &entry : table) {
    const Procedure &procedure = procedures[entry.procedure];
    const auto &instructions = plan->procedures[entry.procedure]->instructions;
    for (uint32_t i = 0; i < instructions.size(); ++i) {
      const Op &op = ops[procedure.firstOp + i];
      if (op.kind != Body::Record && op.kind != Body::Wait)
        continue;
      uint32_t instance = instanceOf(op, entry);
      if (op.kind == Body::Record) {
        uint32_t counter = counterOf(op, entry);
        ++raised[counter];
        latest[{instructions[i]->body.AsRecord()->event, instance}] = counter;
      } else {
        auto at = latest.find({instructions[i]->body.AsWait()->event, instance});
        if (at != latest.end())
          waits[entry.firstWait + op.index] = {at->second, raised[at->second]};
      }
    }
  }
}

void StageProgram::findCommits() {
  auto writes = [](const planfile::InstructionT &instruction, const planfile::BufferRefT &ref) {
    bool any = false;
    planfile::forEachAccess(instruction, 0, [&](const planfile::ByteAccess &a) {
      any |= a.write && a.begin < ref.offset + ref.size && ref.offset < a.end;
    });
    return any;
  };
  // These decide whether a step counts; the number of its tokens may come later.
  auto decides = [](const planfile::StepOutputT &output) {
    return output.name == "loss" || output.name == "grad_norm" || output.name == "moe_lost";
  };
  bool committed = false;
  for (size_t p = 0; p < procedures.size(); ++p) {
    if (plan->procedures[p]->kind != planfile::ProcedureKind::Update)
      continue;
    const auto &instructions = plan->procedures[p]->instructions;
    for (uint32_t i = 0; i < instructions.size(); ++i) {
      Op &op = ops[procedures[p].firstOp + i];
      for (const auto &state : plan->states)
        if (state->role != planfile::StateRole::Accumulator && !op.commits)
          op.commits = writes(*instructions[i], *state->buffer);
      committed |= op.commits;
      for (const auto &output : plan->outputs)
        if (decides(*output))
          outputsFirst &= !(committed && writes(*instructions[i], *output->buffer));
    }
  }
}
