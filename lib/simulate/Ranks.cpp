#include "lib/simulate/Ranks.h"

#include "lib/planfile/Program.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::simulate;
using runtime::Op;
using runtime::StageProgram;

const Op *Rank::current(size_t index) {
  Stream &stream = streams[index];
  while (stream.entry < program->table.size()) {
    const auto &list = program->procedures[program->table[stream.entry].procedure].byStream[index];
    if (stream.position < list.size())
      return &program->ops[list[stream.position]];
    ++stream.entry;
    stream.position = 0;
  }
  return nullptr;
}

Ranks::Ranks(const planfile::ProgramT &program, const std::vector<std::unique_ptr<StageProgram>> &stages, bool all)
    : program_(program), all_(all) {
  for (uint32_t id = 0; id < planfile::rankCount(*program.mesh); ++id) {
    uint32_t stage = planfile::stageOf(program, id);
    if (!first_.try_emplace(stage, uint32_t(ranks.size())).second && !all)
      continue;
    Rank rank;
    rank.id = id;
    rank.program = stages[stage].get();
    ranks.push_back(std::move(rank));
  }
  for (Rank &rank : ranks)
    connect(rank);
}

uint32_t Ranks::indexOf(uint32_t rank) const { return all_ ? rank : first_.at(planfile::stageOf(program_, rank)); }

void Ranks::connect(Rank &rank) {
  const StageProgram &stage = *rank.program;
  rank.streams.resize(stage.plan->streams);
  rank.events.resize(stage.counters);
  std::map<std::tuple<std::vector<uint32_t>, std::vector<uint32_t>, uint8_t>, Group *> known;
  for (size_t i = 0; i < stage.collectives.size(); ++i) {
    const planfile::CollectiveT &c = *stage.collectives[i];
    uint8_t stream = stage.ops[stage.collectiveOps[i]].stream;
    auto [at, isNew] = known.try_emplace({c.axes, c.members, stream});
    if (isNew) {
      std::vector<uint32_t> group;
      for (uint32_t member : planfile::groupOf(*program_.mesh, c, rank.id))
        group.push_back(indexOf(member));
      std::sort(group.begin(), group.end());
      group.erase(std::unique(group.begin(), group.end()), group.end());
      auto &slot = groups_[{group, stream, all_ ? std::vector<uint32_t>() : c.axes}];
      if (!slot) {
        slot = std::make_unique<Group>();
        slot->members = uint32_t(group.size());
        slot->ranks = group;
      }
      at->second = slot.get();
    }
    rank.groups.push_back(at->second);
    auto &posts = posts_[{at->second, rank.id}];
    if (!posts)
      posts = std::make_unique<uint64_t>(0);
    rank.posts.push_back(posts.get());
  }
  for (uint32_t op : stage.messageOps) {
    const planfile::Message message = *planfile::messageOf(stage.instructionOf(op));
    uint32_t own = indexOf(rank.id), peer = indexOf(planfile::peerOf(*program_.mesh, rank.id, message));
    uint32_t from = message.sends ? own : peer, to = message.sends ? peer : own;
    auto &channel = channels_[{from, to, message.channel}];
    if (!channel) {
      channel = std::make_unique<Channel>();
      channel->ends[0] = from;
      channel->ends[1] = to;
    }
    rank.messages.push_back({channel.get(), message.sends ? 0 : 1});
  }
}
