// Makes an executor: arenas, communicators, channels, library calls, threads.
#include "runtime/cpu/Executor.h"

#include "lib/planfile/Inputs.h"
#include "runtime/cpu/Adversary.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using support::error;
using support::Status;

unsigned runtime::availableCores() {
  if (std::vector<int> cores = allowedCores(); !cores.empty())
    return static_cast<unsigned>(cores.size());
  return std::max(1u, std::thread::hardware_concurrency());
}

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

const Hazard *Executor::hazard() const {
  return adversary_ && adversary_->hazard() ? &*adversary_->hazard() : nullptr;
}

Status Executor::prepare(const ExecutorOptions &options) {
  if (kernels_.size() != program_.kernels.size())
    return error(kernels_.size(), " kernels for a plan of ", program_.kernels.size());
  for (uint32_t stage = 0; stage < program_.stages.size(); ++stage)
    stages_.push_back(std::make_unique<StageProgram>(program_, stage));
  if (options.share) {
    support::Result<SharedStates> shared = SharedStates::find(program_, stages_);
    if (!shared)
      return shared.takeError();
    shared_ = std::move(*shared);
  }
  for (const auto &input : program_.inputs)
    inputShapes_.push_back(planfile::wholeShape(*program_.mesh, *input));
  if (Status s = mapArenas(); !s)
    return s;
  for (const auto &rank : ranks_)
    connect(*rank);

  unsigned cores = availableCores();
  isolate_ = options.isolate;
  unsigned workers = options.workers ? options.workers : std::min(cores, ranks());
  if (isolate_ || options.interleaving)
    workers = 1; // isolation would close another worker's arena; interleaving runs one op at a time
  threads_ = options.threadsPerRank ? options.threadsPerRank : program_.threads_per_rank;
  if (threads_ == 0)
    threads_ = std::max(1u, cores / ranks());
  threads_ = std::min(threads_, 256u);
  if (options.pin)
    pinning_ = Pinning::claim(workers * threads_);
  auto pin = [this](unsigned worker, unsigned thread) {
    if (pinning_)
      pinning_->pin(worker * threads_ + thread);
  };
  for (unsigned i = 0; i < workers; ++i)
    teams_.push_back(
        std::make_unique<Team>(threads_, [pin, i](unsigned thread) { pin(i, thread); }));
  prepareLibrary(options);
  watch(options, workers);
  if (options.interleaving)
    wake_ = [](uint32_t) {}; // no task sleeps
  else
    wake_ = [this](uint32_t rank) { workers_->wake(rank); };
  workers_ = std::make_unique<Workers>(
      ranks(), workers, [this](uint32_t rank, unsigned worker) {
        return watched_ ? watchedAdvance(rank, worker) : advance(rank, worker);
      },
      [pin](unsigned worker) { pin(worker, 0); });
  if (options.interleaving)
    adversary_ = std::make_unique<Adversary>(*this, *options.interleaving);
  asksInTime_ = !adversary_;
  for (const auto &stage : stages_)
    asksInTime_ &= stage->outputsFirst;
  return support::ok();
}

Status Executor::mapArenas() {
  uint32_t count = planfile::rankCount(*program_.mesh);
  uint64_t needed = 0;
  for (const auto &stage : program_.stages)
    needed += stage->arena_bytes * (count / program_.stages.size());
  if (shared_)
    needed -= shared_->bytesInArenas() - std::min(shared_->bytes(), shared_->bytesInArenas());
  uint64_t free = availableMemory();
  if (free != 0 && needed > free)
    return error("the arenas of ", count, " ranks need ", needed, " bytes, but only ", free,
                 " bytes of memory are free; use fewer ranks, a smaller micro-batch or a "
                 "shorter sequence");
  for (uint32_t id = 0; id < count; ++id) {
    const StageProgram *stage = stages_[planfile::stageOf(program_, id)].get();
    support::Result<Arena> arena = Arena::map(stage->plan->arena_bytes);
    if (!arena)
      return arena.takeError();
    ranks_.push_back(std::make_unique<Rank>(id, stage, std::move(*arena)));
    Rank &rank = *ranks_.back();
    rank.bases.push_back(rank.arena.data());
    for (uint32_t base = 1; shared_ && base <= shared_->bases(stage->stage); ++base) {
      std::byte *at = shared_->at(id, base);
      rank.bases.push_back(at ? at : rank.arena.data() + shared_->arenaOffset(stage->stage, base));
    }
  }
  return support::ok();
}

std::byte *Executor::stateOf(uint32_t rank, const planfile::StateShardT &state) const {
  uint32_t base = shared_ ? shared_->baseOf(stageOfRank(rank), state) : 0;
  return base ? ranks_[rank]->bases[base] : arena(rank) + state.buffer->offset;
}

bool Executor::fills(uint32_t rank, const planfile::StateShardT &state) const {
  uint32_t base = shared_ ? shared_->baseOf(stageOfRank(rank), state) : 0;
  return base == 0 || shared_->fills(rank, base);
}

void Executor::seal() const {
  if (shared_)
    shared_->seal();
}

void Executor::connect(Rank &rank) {
  const StageProgram &stage = *rank.program;
  rank.coordinate = planfile::coordinateOf(*program_.mesh, rank.id);
  rank.streams.resize(stage.plan->streams);
  for (const Op &op : stage.ops)
    if (std::vector<Flight> &flights = rank.streams[op.stream].flights; flights.size() < op.members)
      flights.resize(op.members);
  rank.events.resize(stage.counters);
  rank.collectiveCalls.resize(stage.collectives.size());
  rank.messageCalls.resize(stage.messageOps.size());

  // Looks each group up once, since few distinct groups serve many collectives.
  std::map<std::tuple<std::vector<uint32_t>, std::vector<uint32_t>, uint8_t>, Member> known;
  for (size_t i = 0; i < stage.collectives.size(); ++i) {
    const planfile::CollectiveT &c = *stage.collectives[i];
    uint8_t stream = stage.ops[stage.collectiveOps[i]].stream;
    auto [at, isNew] = known.try_emplace({c.axes, c.members, stream});
    if (isNew) {
      std::vector<uint32_t> group = planfile::groupOf(*program_.mesh, c, rank.id);
      auto &slot = communicators_[{group, stream}];
      if (!slot)
        slot = std::make_unique<Communicator>(group);
      auto self = std::find(group.begin(), group.end(), rank.id);
      at->second = {slot.get(), static_cast<uint32_t>(self - group.begin())};
    }
    rank.members.push_back(at->second);
  }
  for (uint32_t index : stage.messageOps) {
    const planfile::Message message = *planfile::messageOf(stage.instructionOf(index));
    uint32_t peer = planfile::peerOf(*program_.mesh, rank.id, message);
    uint32_t source = message.sends ? rank.id : peer, destination = message.sends ? peer : rank.id;
    auto &channel = channels_[{source, destination, message.channel}];
    if (!channel)
      channel = std::make_unique<Channel>(source, destination);
    rank.messages.push_back(
        {channel.get(), message.sends ? Channel::Source : Channel::Destination});
  }
  for (const auto &input : program_.inputs)
    rank.inputOffset.push_back(planfile::firstElement(*program_.mesh, *input, rank.coordinate) *
                               planfile::byteSize(input->dtype));
}

void Executor::prepareLibrary(const ExecutorOptions &options) {
  std::string why = "switched off";
  if (options.useLibrary)
    library_ = Library::open(why);
  size_t refused = 0, all = 0;
  for (const auto &stage : stages_) {
    auto &parts = matmulParts_.emplace_back(stage->matmuls.size());
    for (size_t i = 0; i < stage->matmuls.size(); ++i) {
      if (library_)
        parts[i] = splitMatmul(*library_, *stage->matmuls[i], threads_);
      refused += parts[i].empty();
      ++all;
    }
  }
  if (!library_) {
    libraryNote_ = "the program's own kernels (" + why + ")";
    return;
  }
  library_->finish(static_cast<unsigned>(teams_.size()) * threads_);
  libraryNote_ = "oneDNN " + library_->version();
  if (refused > 0)
    libraryNote_ += support::text(", ", refused, " of ", all,
                                  " products by the program's own kernels");
}
