// Measures the executor for --profile and --trace.
#include "runtime/cpu/Executor.h"

#include "lib/planfile/AxisNames.h"
#include "runtime/compute/Clock.h"
#include "runtime/compute/Machine.h"
#include "runtime/cpu/TraceWriter.h"

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

bool runsKernels(Body kind) { return kind == Body::Launch || kind == Body::Matmul; }

} // namespace

void Executor::watch(const ExecutorOptions &options, unsigned workers) {
  std::vector<size_t> ops;
  for (const auto &stage : stages_)
    ops.push_back(stage->ops.size());
  if (options.profile)
    profile_ = std::make_unique<Profile>(ops, workers);
  if (options.trace)
    trace_ = std::make_unique<Trace>(*options.trace, workers);
  watched_ = profile_ || trace_;
}

Status Executor::watchedRound() {
  if (trace_)
    trace_->beginStep();
  uint64_t start = nanoseconds();
  Status status = endStep(round());
  if (profile_)
    profile_->endStep(nanoseconds() - start);
  if (!status && trace_ && trace_->on())
    traceUnfinished();
  return status;
}

Workers::Poll Executor::watchedAdvance(uint32_t rank, unsigned worker) {
  uint64_t start = nanoseconds();
  Workers::Poll poll = advance(rank, worker);
  if (profile_)
    profile_->addDriven(worker, nanoseconds() - start);
  return poll;
}

bool Executor::watchedStep(const Site &site) {
  auto &[rank, stream, entry, op, worker, member] = site;
  // Skips the processor time with several workers: that of the process tells nothing about
  // one of them.
  bool readsProcessor = profile_ && teams_.size() == 1 && runsKernels(op.kind);
  uint64_t processor = readsProcessor ? processorTime() : 0;
  uint64_t start = nanoseconds();
  if (stream.begun == 0)
    stream.begun = start;
  bool ended = run(site);
  uint64_t end = nanoseconds();
  auto index = static_cast<uint32_t>(&op - rank.program->ops.data());
  if (profile_)
    profile_->add(worker, rank.program->stage, index, end - start,
                  readsProcessor ? processorTime() - processor : 0, ended);
  if (!ended)
    return false;
  for (uint32_t i = 1; profile_ && i < op.members; ++i)
    profile_->add(worker, rank.program->stage, index + i, 0, 0, ended);
  for (uint32_t i = 0; trace_ && trace_->on() && i < op.members; ++i)
    trace_->add(worker, {stream.begun, end, stream.flights[i].number, rank.id,
                         static_cast<uint32_t>(trace_->step()), stream.entry, index + i, worker,
                         /*unfinished=*/false});
  stream.begun = 0;
  return true;
}

// Adds an unfinished event for the current op of each stream, after the step failed.
void Executor::traceUnfinished() {
  uint64_t now = nanoseconds();
  for (const auto &rank : ranks_)
    for (size_t s = 0; s < rank->streams.size(); ++s) {
      Stream &stream = rank->streams[s];
      const Op *op = current(*rank, stream, static_cast<uint8_t>(s));
      if (!op || stream.begun == 0)
        continue;
      auto index = static_cast<uint32_t>(op - rank->program->ops.data());
      for (uint32_t i = 0; i < op->members; ++i)
        trace_->add(0, {stream.begun, now, stream.flights[i].number, rank->id,
                        static_cast<uint32_t>(trace_->step()), stream.entry, index + i, 0,
                        /*unfinished=*/true});
    }
}

Status Executor::writeTrace(bool now) {
  if (!trace_ || !(now || trace_->atLast()))
    return support::ok();
  if (Status s = TraceWriter(*this, *trace_).write(); !s)
    return s;
  const TraceOptions &asked = trace_->options();
  uint64_t steps = trace_->steps();
  traceNote_ = steps == 0 ? asked.path + ": the run ended before its first step"
                          : text(asked.path, ": steps ", asked.first, " to ",
                                 asked.first + steps - 1, ", ", trace_->events().size(),
                                 " instructions");
  if (uint64_t dropped = trace_->dropped())
    traceNote_ += text("; ", dropped, " did not fit, give fewer --trace-steps");
  trace_.reset();
  watched_ = profile_ != nullptr;
  return support::ok();
}

void Executor::printProfile(std::ostream &out) const {
  if (!profile_)
    return;
  auto describe = [this](uint32_t stage, size_t op) { return workOf(stage, op); };
  auto threads = static_cast<unsigned>(teams_.size()) * threads_;
  profile_->print(out, describe, measureMachine(std::min(threads, availableCores())));
}

std::string Executor::nameOf(const StageProgram &stage, const Op &op) const {
  auto along = [&](std::string_view what, uint32_t axis, int32_t delta) {
    return text(what, " ", planfile::joinedUserNames(*program_.mesh, {axis}), delta > 0 ? " +" : " ", delta);
  };
  const auto index = static_cast<uint32_t>(&op - stage.ops.data());
  switch (op.kind) {
  case Body::Launch:
    return program_.kernels[op.index]->name;
  case Body::Matmul: {
    const planfile::MatmulT &m = *stage.matmuls[op.index];
    bool byLibrary = !matmulParts_[stage.stage][op.index].empty();
    return text("matmul ", m.batch, " x ", m.m, " x ", m.n, " x ", m.k,
                m.accumulate ? " accumulate" : "", byLibrary ? "" : " (own kernel)");
  }
  case Body::Collective: {
    const planfile::CollectiveT &c = *stage.collectives[op.index];
    return text(toString(c.kind), " ", planfile::joinedUserNames(*program_.mesh, c.axes, " "));
  }
  case Body::Send: {
    const planfile::SendT &send = *stage.instructionOf(index).body.AsSend();
    return along("send", send.axis, send.delta);
  }
  case Body::Recv: {
    const planfile::RecvT &recv = *stage.instructionOf(index).body.AsRecv();
    return along("recv", recv.axis, recv.delta);
  }
  default:
    return std::string(toString(op.kind));
  }
}

Profile::Work Executor::workOf(uint32_t stageIndex, size_t index) const {
  const StageProgram &stage = *stages_[stageIndex];
  const Op &op = stage.ops[index];
  Profile::Work work;
  work.name = nameOf(stage, op);
  for (uint32_t i = 0; i < op.buffers; ++i)
    work.bytes += double(stage.buffers[op.firstBuffer + i].size);
  switch (op.kind) {
  case Body::Matmul: {
    const planfile::MatmulT &m = *stage.matmuls[op.index];
    work.kind = Profile::Matmul;
    work.flops = 2.0 * double(m.batch) * double(m.m) * double(m.n) * double(m.k);
    break;
  }
  case Body::Launch:
    // The class is only a heading of the table.
    if (program_.origins[op.origin]->op.find("attention") != std::string::npos)
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
