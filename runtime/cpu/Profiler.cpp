#include "runtime/cpu/Profiler.h"

#include "runtime/compute/Clock.h"
#include "runtime/compute/MachineSpeed.h"
#include "runtime/compute/Pinning.h"
#include "runtime/cpu/InstructionName.h"
#include "runtime/cpu/TraceWriter.h"

#include <algorithm>
#include <ctime>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using support::Status;
using support::text;

namespace {

// Returns the processor time of all threads of this process, in nanoseconds.
uint64_t processorTime() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

} // namespace

Profiler::Profiler(const LocalRanks &ranks, const KernelRunner &kernels, bool profile,
                   const std::optional<TraceOptions> &trace)
    : ranks_(ranks), kernels_(kernels) {
  std::vector<size_t> ops;
  for (const auto &stage : ranks.stages())
    ops.push_back(stage->ops.size());
  if (profile)
    profile_ = std::make_unique<Profile>(ops, kernels.workers());
  if (trace)
    trace_ = std::make_unique<Trace>(*trace, kernels.workers());
}

void Profiler::beginStep() {
  if (trace_)
    trace_->beginStep();
  stepStart_ = nanoseconds();
}

void Profiler::endStep(bool good) {
  if (profile_)
    profile_->endStep(nanoseconds() - stepStart_);
  if (!good && trace_ && trace_->on())
    traceUnfinished();
}

uint64_t Profiler::beginAdvance() { return nanoseconds(); }

void Profiler::endAdvance(unsigned worker, uint64_t start) {
  if (profile_)
    profile_->addDriven(worker, nanoseconds() - start);
}

bool Profiler::readsProcessor(const Op &op) const {
  return profile_ && kernels_.workers() == 1 &&
         (op.kind == Body::Launch || op.kind == Body::Matmul);
}

Observer::Start Profiler::beginTry(const Site &site) {
  uint64_t processor = readsProcessor(site.op) ? processorTime() : 0;
  uint64_t now = nanoseconds();
  if (site.stream.begun == 0)
    site.stream.begun = now;
  return {now, processor};
}

void Profiler::endTry(const Site &site, const Start &start, bool ended) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  uint64_t end = nanoseconds();
  uint32_t index = site.opIndex();
  if (profile_)
    profile_->add(worker, rank.program->stage, index, end - start.wall,
                  readsProcessor(op) ? processorTime() - start.processor : 0, ended);
  if (!ended)
    return;
  for (uint32_t i = 1; profile_ && i < op.members; ++i)
    profile_->add(worker, rank.program->stage, index + i, 0, 0, ended);
  for (uint32_t i = 0; trace_ && trace_->on() && i < op.members; ++i)
    trace_->add(worker, {stream.begun, end, stream.flights[i].number, rank.id,
                         static_cast<uint32_t>(trace_->step()), stream.entry, index + i, worker,
                         /*unfinished=*/false});
  stream.begun = 0;
}

// Adds an unfinished event for the current op of each stream, after the step failed.
void Profiler::traceUnfinished() {
  uint64_t now = nanoseconds();
  for (const auto &rank : ranks_.all())
    for (size_t s = 0; s < rank->streams.size(); ++s) {
      Stream &stream = rank->streams[s];
      const Op *op = rank->current(s);
      if (!op || stream.begun == 0)
        continue;
      auto index = static_cast<uint32_t>(op - rank->program->ops.data());
      for (uint32_t i = 0; i < op->members; ++i)
        trace_->add(0, {stream.begun, now, stream.flights[i].number, rank->id,
                        static_cast<uint32_t>(trace_->step()), stream.entry, index + i, 0,
                        /*unfinished=*/true});
    }
}

Status Profiler::writeTrace(bool now) {
  if (!trace_ || !(now || trace_->atLast()))
    return support::ok();
  if (Status s = TraceWriter({ranks_.program(), ranks_.stages(), kernels_.workers(), kernels_.threads(),
                               [this](uint32_t stage, uint32_t product) { return kernels_.byLibrary(stage, product); }},
                              *trace_)
                      .write(); !s)
    return s;
  const TraceOptions &asked = trace_->options();
  uint64_t steps = trace_->steps();
  traceNote_ = steps == 0
                   ? asked.path + ": the run ended before its first step"
                   : text(asked.path, ": steps ", asked.first, " to ", asked.first + steps - 1,
                          ", ", trace_->events().size(), " instructions");
  if (uint64_t dropped = trace_->dropped())
    traceNote_ += text("; ", dropped, " did not fit, give fewer --trace-steps");
  trace_.reset();
  return support::ok();
}

void Profiler::printProfile(std::ostream &out) const {
  if (!profile_)
    return;
  auto describe = [this](uint32_t stage, size_t op) { return workOf(stage, op); };
  unsigned threads = kernels_.workers() * kernels_.threads();
  profile_->print(out, describe, measureMachineSpeed(std::min(threads, availableCores())));
}

Profile::Work Profiler::workOf(uint32_t stageIndex, size_t index) const {
  const StageProgram &stage = *ranks_.stages()[stageIndex];
  const Op &op = stage.ops[index];
  Profile::Work work;
  work.name = nameOf(ranks_.program(), stage, op, op.kind == Body::Matmul && kernels_.byLibrary(stageIndex, op.index));
  for (uint32_t i = 0; i < op.buffers; ++i)
    work.bytes += double(stage.buffers[op.firstBuffer + i].size);
  switch (op.kind) {
  case Body::Matmul: {
    const planfile::MatmulT &m = *stage.matmuls[op.index];
    work.kind = Profile::Matmul;
    work.flops = 2.0 * double(m.batch) * double(m.m) * double(m.n) * double(m.k);
    // Takes the average of what was counted: it depends on the routes.
    if (const GroupedProduct *product = kernels_.grouped(stageIndex, op.index))
      work.flops = double(product->flops()) / double(std::max<uint64_t>(1, product->calls()));
    break;
  }
  case Body::Launch:
    // The class is only a heading of the table.
    if (ranks_.program().origins[op.origin]->op.find("attention") != std::string::npos)
      work.kind = Profile::Attention;
    break;
  case Body::Collective:
  case Body::Send:
  case Body::Recv:
    work.kind = Profile::Communication;
    break;
  case Body::Record:
  case Body::Wait:
    work.kind = Profile::Events;
    break;
  default:
    work.kind = Profile::Movement;
  }
  return work;
}
