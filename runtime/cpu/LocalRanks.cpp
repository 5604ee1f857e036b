#include "runtime/cpu/LocalRanks.h"

#include "lib/planfile/Inputs.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::Status;

support::Result<std::unique_ptr<LocalRanks>> LocalRanks::create(const planfile::ProgramT &program,
                                                                const ExecutorOptions &options) {
  std::unique_ptr<LocalRanks> made(new LocalRanks(program));
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage)
    made->stages_.push_back(std::make_unique<StageProgram>(program, stage));
  if (options.share) {
    support::Result<SharedStates> shared = SharedStates::find(program, made->stages_);
    if (!shared)
      return shared.takeError();
    made->shared_ = std::move(*shared);
  }
  if (Status s = made->mapArenas(options); !s)
    return s.takeError();
  for (const auto &rank : made->ranks_)
    made->connect(*rank);
  return made;
}

// Fails if the arenas, or what they need beyond those of `over`, do not fit what is free.
Status LocalRanks::checkMemory(const LocalRanks *over) const {
  uint32_t count = planfile::rankCount(*program_.mesh);
  uint64_t needed = 0, there = 0;
  for (const auto &stage : program_.stages)
    needed += stage->arena_bytes * (count / program_.stages.size());
  if (shared_)
    needed -= shared_->bytesInArenas() - std::min(shared_->bytes(), shared_->bytesInArenas());
  for (uint32_t id = 0; over && id < over->size(); ++id)
    there += (*over)[id].arena.size();
  needed -= std::min(needed, there);
  uint64_t free = availableMemory();
  if (free != 0 && needed > free)
    return error("the arenas of ", count, " ranks need ", needed, over ? " more bytes, but only " : " bytes, but only ",
                 free, " bytes of memory are free; use fewer ranks, a smaller micro-batch or a "
                 "shorter sequence");
  return support::ok();
}

Status LocalRanks::mapArenas(const ExecutorOptions &options) {
  uint32_t count = planfile::rankCount(*program_.mesh);
  if (Status s = checkMemory(options.over); !s)
    return s;
  for (uint32_t id = 0; id < count; ++id) {
    uint32_t index = planfile::stageOf(program_, id);
    const StageProgram *stage = stages_[index].get();
    uint64_t bytes = stage->plan->arena_bytes, reserved = options.retry ? options.retry->stages[index]->arena_bytes : 0;
    support::Result<Arena> arena =
        options.over ? (*options.over)[id].arena.view(bytes) : Arena::map(bytes, reserved);
    if (!arena)
      return arena.takeError();
    ranks_.push_back(std::make_unique<Rank>(id, stage, std::move(*arena)));
    mapBases(*ranks_.back());
  }
  return support::ok();
}

void LocalRanks::mapBases(Rank &rank) const {
  uint32_t stage = rank.program->stage;
  rank.bases.push_back(rank.arena.data());
  for (uint32_t base = 1; shared_ && base <= shared_->bases(stage); ++base) {
    std::byte *at = shared_->at(rank.id, base);
    rank.bases.push_back(at ? at : rank.arena.data() + shared_->arenaOffset(stage, base));
  }
}

std::byte *LocalRanks::stateOf(uint32_t id, const planfile::StateShardT &state) const {
  const Rank &rank = *ranks_[id];
  uint32_t base = shared_ ? shared_->baseOf(rank.program->stage, state) : 0;
  return base ? rank.bases[base] : rank.arena.data() + state.buffer->offset;
}

bool LocalRanks::fills(uint32_t id, const planfile::StateShardT &state) const {
  uint32_t base = shared_ ? shared_->baseOf(ranks_[id]->program->stage, state) : 0;
  return base == 0 || shared_->fills(id, base);
}

void LocalRanks::connect(Rank &rank) {
  const StageProgram &stage = *rank.program;
  rank.coordinate = planfile::coordinateOf(*program_.mesh, rank.id);
  rank.streams.resize(stage.plan->streams);
  for (const Op &op : stage.ops)
    if (std::vector<PendingTransfer> &flights = rank.streams[op.stream].flights;
        flights.size() < op.members)
      flights.resize(op.members);
  rank.events.resize(stage.counters);
  rank.traffic.collectiveCalls.resize(stage.collectives.size());
  rank.traffic.rowsSent.resize(stage.collectives.size());
  rank.traffic.messageCalls.resize(stage.messageOps.size());
  joinCommunicators(rank);
  openChannels(rank);
  for (const auto &input : program_.inputs)
    rank.inputOffset.push_back(planfile::firstElement(*program_.mesh, *input, rank.coordinate) *
                               planfile::byteSize(input->dtype));
}

// Looks each group up once, since few distinct groups serve many collectives.
void LocalRanks::joinCommunicators(Rank &rank) {
  const StageProgram &stage = *rank.program;
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
}

void LocalRanks::openChannels(Rank &rank) {
  for (uint32_t index : rank.program->messageOps) {
    const planfile::Message message = *planfile::messageOf(rank.program->instructionOf(index));
    uint32_t peer = planfile::peerOf(*program_.mesh, rank.id, message);
    uint32_t source = message.sends ? rank.id : peer, destination = message.sends ? peer : rank.id;
    auto &channel = channels_[{source, destination, message.channel}];
    if (!channel)
      channel = std::make_unique<Channel>(source, destination);
    rank.messages.push_back(
        {channel.get(), message.sends ? Channel::Source : Channel::Destination});
  }
}

void LocalRanks::rewind() {
  exchangedAtStart_ = exchangedBytes();
  for (const auto &rank : ranks_) {
    rank->trafficAtStart = rank->traffic;
    std::fill(rank->events.begin(), rank->events.end(), 0u);
    for (Stream &stream : rank->streams)
      stream.entry = stream.position = 0, stream.begun = 0;
  }
}

void LocalRanks::takeBack() {
  exchangedBefore_ = exchangedAtStart_;
  // Replaces communicators and channels, in which what was posted is never matched.
  communicators_.clear();
  channels_.clear();
  for (const auto &rank : ranks_) {
    rank->members.clear();
    rank->messages.clear();
    rank->traffic = rank->trafficAtStart;
    for (Stream &stream : rank->streams)
      for (PendingTransfer &flight : stream.flights)
        flight.posted = flight.ended = false;
  }
  for (const auto &rank : ranks_) {
    joinCommunicators(*rank);
    openChannels(*rank);
  }
}

uint64_t LocalRanks::exchangedBytes() const {
  uint64_t sum = exchangedBefore_;
  for (const auto &[key, communicator] : communicators_)
    sum += communicator->exchangedBytes();
  return sum;
}

void LocalRanks::deferMessages() {
  for (const auto &[key, channel] : channels_)
    channel->defer();
}
