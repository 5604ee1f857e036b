#include "runtime/cpu/Executor.h"

#include "runtime/cpu/Adversary.h"
#include "runtime/cpu/BlockedReport.h"
#include "runtime/cpu/Profiler.h"

#include <algorithm>
#include <utility>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using support::error;
using support::Status;

support::Result<std::unique_ptr<Executor>> Executor::create(const planfile::ProgramT &program,
                                                            const Kernels &kernels,
                                                            ExecutorOptions options) {
  std::unique_ptr<Executor> executor(new Executor(program, kernels));
  if (Status s = executor->prepare(options); !s)
    return s.takeError();
  return executor;
}

Executor::Executor(const planfile::ProgramT &program, const Kernels &kernels)
    : program_(program), kernels_(kernels) {}

Executor::~Executor() = default;

Status Executor::prepare(const ExecutorOptions &options) {
  if (kernels_.size() != program_.kernels.size())
    return error(kernels_.size(), " kernels for a plan of ", program_.kernels.size());
  support::Result<std::unique_ptr<LocalRanks>> made = LocalRanks::create(program_, options);
  if (!made)
    return made.takeError();
  ranks_ = std::move(*made);
  startThreads(options);
  if (options.profile || options.trace) {
    profiler_ = std::make_unique<Profiler>(*ranks_, *runner_, options.profile, options.trace);
    engine_->observe(profiler_.get());
  }
  if (options.interleaving)
    adversary_ = std::make_unique<Adversary>(*ranks_, *engine_, *options.interleaving);
  approvesBeforeCommit_ = !adversary_;
  for (const auto &stage : ranks_->stages())
    approvesBeforeCommit_ &= stage->outputsFirst;
  return support::ok();
}

void Executor::startThreads(const ExecutorOptions &options) {
  unsigned cores = availableCores();
  unsigned workers = options.workers ? options.workers : std::min(cores, ranks());
  if (options.isolate || options.interleaving)
    workers = 1; // isolation would close another worker's arena; interleaving runs one op at a time
  unsigned threads = options.threadsPerRank ? options.threadsPerRank : program_.threads_per_rank;
  if (threads == 0)
    threads = std::max(1u, cores / ranks());
  threads = std::min(threads, 256u);
  if (options.pin)
    pinning_ = Pinning::claim(workers * threads);
  auto pin = [this, threads](unsigned worker, unsigned thread) {
    if (pinning_)
      pinning_->pin(worker * threads + thread);
  };
  KernelRunner::Options how{workers, threads, options.useLibrary, options.isolate, pin, options.routes};
  runner_ = std::make_unique<KernelRunner>(kernels_, *ranks_, how);
  Wake wake = [this](uint32_t rank) { workers_->wake(rank); };
  if (options.interleaving)
    wake = [](uint32_t) {}; // no task sleeps
  engine_ = std::make_unique<StreamEngine>(*ranks_, *runner_, std::move(wake));
  workers_ = std::make_unique<Workers>(
      ranks(), workers,
      [engine = engine_.get()](uint32_t rank, unsigned worker) {
        return engine->advance(rank, worker);
      },
      [pin](unsigned worker) { pin(worker, 0); });
}

template <class Body> void Executor::forGrouped(Body body) const {
  for (const auto &stage : ranks_->stages())
    for (uint32_t i = 0; i < stage->matmuls.size(); ++i)
      if (GroupedProduct *product = runner_->grouped(stage->stage, i))
        body(*product);
}

Status Executor::runStep(const std::vector<const std::byte *> &inputs, const CommitCheck &approve) {
  if (!engine_->failure().empty())
    return error(engine_->failure());
  approve_ = approve ? &approve : nullptr;
  committing_ = !approve_ || !approvesBeforeCommit_;
  tookBack_ = false;
  if (approve_)
    flopsAtStart_ = groupedFlops();
  engine_->beginStep(inputs, /*mayCommit=*/committing_);
  Status status;
  if (adversary_) {
    status = adversary_->runStep() ? support::ok() : error(engine_->failure());
  } else {
    Pinning::Scope scope(pinning_);
    status = engine_->observer() ? runObserved() : endStep(round());
  }
  if (status && approve_ && !approves())
    status = error(engine_->failure());
  if (status)
    committing_ = false;
  return status;
}

Status Executor::runObserved() {
  engine_->observer()->beginStep();
  Status status = endStep(round());
  engine_->observer()->endStep(bool(status));
  return status;
}

Workers::Outcome Executor::round() {
  Workers::Outcome outcome = workers_->run();
  if (outcome != Workers::Outcome::AllBlocked || engine_->mayCommit())
    return outcome;
  // Every op that is left waits for one that commits, or is blocked for good.
  if (!approves())
    return Workers::Outcome::Failed;
  if (tookBack_) {
    flopsTakenBack_ += groupedFlops() - flopsAtStart_;
    ranks_->takeBack();
    return Workers::Outcome::AllDone;
  }
  committing_ = true;
  engine_->allowCommits();
  return workers_->run();
}

// Asks whether the step may change weights; returns false if it fails.
bool Executor::approves() {
  support::Result<Verdict> verdict = (*std::exchange(approve_, nullptr))();
  tookBack_ = verdict && *verdict == Verdict::TakeBack;
  if (!verdict)
    engine_->fail(verdict.message());
  else if (tookBack_ && committing_)
    engine_->fail("a step that has changed weights cannot be taken back");
  return !engine_->failed();
}

support::Result<std::unique_ptr<Executor>> Executor::makeRetry(const planfile::ProgramT &program,
                                                               const Kernels &kernels,
                                                               ExecutorOptions options) const {
  options.over = ranks_.get();
  options.routes = runner_->routesHook();
  options.retry = nullptr;
  options.trace.reset();
  options.profile = options.pin = options.share = false;
  return create(program, kernels, options);
}

Status Executor::endStep(Workers::Outcome outcome) {
  if (outcome == Workers::Outcome::AllDone)
    return support::ok();
  if (outcome == Workers::Outcome::AllBlocked)
    engine_->fail(blockedReport(*ranks_));
  return error(engine_->failure());
}

uint32_t Executor::ranks() const { return ranks_->size(); }

std::byte *Executor::arena(uint32_t rank) const { return (*ranks_)[rank].arena.data(); }

std::byte *Executor::stateOf(uint32_t rank, const planfile::StateShardT &state) const {
  return ranks_->stateOf(rank, state);
}

bool Executor::fills(uint32_t rank, const planfile::StateShardT &state) const {
  return ranks_->fills(rank, state);
}

void Executor::seal() const {
  if (shared())
    shared()->seal();
}

const std::optional<SharedStates> &Executor::shared() const { return ranks_->shared(); }

uint32_t Executor::stageOfRank(uint32_t rank) const { return (*ranks_)[rank].program->stage; }

unsigned Executor::threadsPerRank() const { return runner_->threads(); }

const Hazard *Executor::hazard() const {
  return adversary_ && adversary_->hazard() ? &*adversary_->hazard() : nullptr;
}

void Executor::printProfile(std::ostream &out) const {
  if (profiler_)
    profiler_->printProfile(out);
}

const Profile *Executor::profile() const { return profiler_ ? profiler_->profile() : nullptr; }

Status Executor::writeTrace(bool now) {
  if (!profiler_)
    return support::ok();
  Status status = profiler_->writeTrace(now);
  engine_->observe(profiler_->active() ? profiler_.get() : nullptr);
  return status;
}

const std::string &Executor::traceNote() const {
  static const std::string none;
  return profiler_ ? profiler_->traceNote() : none;
}

const std::string &Executor::libraryNote() const { return runner_->libraryNote(); }

uint64_t Executor::groupedFlops() const {
  uint64_t sum = 0;
  forGrouped([&](GroupedProduct &product) { sum += product.flops(); });
  return sum - flopsTakenBack_;
}

uint64_t Executor::exchangedBytes() const { return ranks_->exchangedBytes(); }

support::Result<std::vector<Count>> Executor::counts() const {
  std::vector<Count> counts;
  std::vector<const Rank *> first(ranks_->stages().size(), nullptr);
  for (const auto &rank : ranks_->all()) {
    const Rank *&other = first[rank->program->stage];
    if (!other)
      other = rank.get();
    if (other->traffic.collectiveCalls != rank->traffic.collectiveCalls ||
        other->traffic.messageCalls != rank->traffic.messageCalls)
      return error("ranks ", other->id, " and ", rank->id, " of stage ", rank->program->stage,
                   " ran different communication");
  }
  for (const Rank *rank : first) {
    const StageProgram &stage = *rank->program;
    auto add = [&](uint32_t index, uint64_t calls) {
      const planfile::InstructionT &instruction = stage.instructionOf(index);
      counts.push_back({stage.stage, instruction.origin, instruction.phase,
                        instruction.body.AsCollective(), instruction.body.AsSend(), calls});
    };
    for (size_t i = 0; i < stage.collectiveOps.size(); ++i) {
      add(stage.collectiveOps[i], rank->traffic.collectiveCalls[i]);
      for (const auto &other : ranks_->all())
        if (other->program == &stage)
          counts.back().rows += other->traffic.rowsSent[i];
    }
    for (size_t i = 0; i < stage.messageOps.size(); ++i)
      if (stage.ops[stage.messageOps[i]].kind == Body::Send)
        add(stage.messageOps[i], rank->traffic.messageCalls[i]);
  }
  return counts;
}
