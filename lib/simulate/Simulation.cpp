#include "lib/simulate/Simulation.h"

#include "lib/simulate/Accounts.h"
#include "lib/simulate/Ranks.h"

#include <algorithm>
#include <deque>
#include <queue>

using namespace llmc;
using namespace llmc::simulate;
using planfile::Body;
using runtime::Op;
using runtime::StageProgram;
using support::error;
using support::text;

namespace {

bool isMessage(const Op &op) { return op.kind == Body::Send || op.kind == Body::Recv; }

// Holds what both kinds of machines share: the state of the ranks, and what has happened.
class Engine {
public:
  Engine(const planfile::ProgramT &program, const Stages &stages, const Prices &prices, bool all)
      : program_(program), prices_(prices), ranks_(program, stages, all) {}
  virtual ~Engine() = default;

protected:
  std::vector<Rank> &ranks() { return ranks_.ranks; }

  // Returns when the record happened that a Wait needs: 0 if it needs none; < 0 if it has not happened.
  double recorded(const Rank &rank, size_t s, const Op &op) const {
    const runtime::WaitTarget &wait = rank.program->waits[rank.entry(s).firstWait + op.index];
    if (wait.target == 0)
      return 0;
    const std::vector<double> &times = rank.events[wait.counter];
    return times.size() >= wait.target ? times[wait.target - 1] : -1;
  }

  void record(Rank &rank, size_t s, const Op &op, double now) {
    rank.events[rank.program->counterOf(op, rank.entry(s))].push_back(now);
  }

  // Enters the current collective; returns its call.
  Group::Call &post(Rank &rank, size_t s, const Op &op, double now) {
    Group &group = *rank.groups[op.index];
    Stream &stream = rank.streams[s];
    if (!stream.posted) {
      stream.posted = true;
      stream.numbers[0] = (*rank.posts[op.index])++;
      if (group.calls.size() <= stream.numbers[0])
        group.calls.resize(stream.numbers[0] + 1);
      Group::Call &call = group.calls[stream.numbers[0]];
      ++call.arrived;
      call.latest = std::max(call.latest, now);
    }
    return group.calls[stream.numbers[0]];
  }

  // Enters the messages of the group that the current op begins.
  void postMessages(Rank &rank, size_t s, const Op &op, double now) {
    Stream &stream = rank.streams[s];
    if (stream.posted)
      return;
    stream.posted = true;
    stream.numbers.assign(op.members, 0);
    for (uint32_t i = 0; i < op.members; ++i) {
      End &end = rank.messages[(&op)[i].index];
      uint64_t number = stream.numbers[i] = end.channel->posts[end.side]++;
      if (end.channel->messages.size() <= number)
        end.channel->messages.resize(number + 1);
      end.channel->messages[number].posted[end.side] = now;
    }
  }

  Channel::Message &messageOf(const Rank &rank, size_t s, const Op &op, uint32_t member) const {
    End end = rank.messages[(&op)[member].index];
    return end.channel->messages[rank.streams[s].numbers[member]];
  }

  // Ends the current op of a stream.
  void leave(Rank &rank, size_t s, const Op &op, double end, unsigned worker) {
    Stream &stream = rank.streams[s];
    double moved = stream.begun;
    if (op.kind == Body::Collective)
      moved = rank.groups[op.index]->calls[stream.numbers[0]].latest;
    auto first = uint32_t(&op - rank.program->ops.data());
    for (uint32_t i = 0; i < op.members; ++i) {
      if (isMessage(op)) {
        const Channel::Message &message = messageOf(rank, s, op, i);
        moved = std::max(message.posted[0], message.posted[1]);
      }
      timeline_.moved.push_back(std::min(nanoseconds(std::max(moved, stream.begun)), nanoseconds(end)));
      timeline_.events.push_back({nanoseconds(stream.begun), nanoseconds(end), stream.numbers[std::min<size_t>(i, stream.numbers.size() - 1)],
                                  rank.id, 1, stream.entry, first + i, worker, false});
    }
    stream.position += op.members;
    stream.posted = false;
    stream.begun = -1;
    timeline_.step = std::max(timeline_.step, end);
  }

  support::Error blocked() {
    for (Rank &rank : ranks())
      for (size_t s = 0; s < rank.streams.size(); ++s)
        if (const Op *op = rank.current(s))
          return error("rank ", rank.id, " waits for ever at a ", toString(op->kind), " of stream ", s, ", entry ",
                       rank.streams[s].entry);
    return error("no rank waits");
  }

  Timeline finish() {
    timeline_.step += prices_.step();
    timeline_.exposed.assign(timeline_.events.size(), 0);
    for (const Rank &rank : ranks())
      timeline_.ranks.push_back(accountOf(program_, *rank.program, rank.id, timeline_));
    return std::move(timeline_);
  }

  static uint64_t nanoseconds(double seconds) { return uint64_t(std::max(0.0, seconds) * 1e9 + 0.5); }

  const planfile::ProgramT &program_;
  const Prices &prices_;
  Timeline timeline_;

private:
  Ranks ranks_;
};

// Lets every stream go on by itself, as far as what it waits for has a time.
class DeviceEngine : Engine {
public:
  using Engine::Engine;

  support::Result<Timeline> run() {
    for (bool progress = true, left = true; left;) {
      if (!progress)
        return blocked();
      progress = left = false;
      for (Rank &rank : ranks())
        for (size_t s = 0; s < rank.streams.size(); ++s)
          while (const Op *op = rank.current(s)) {
            std::optional<double> end = endOf(rank, s, *op);
            if (!end) {
              left = true;
              break;
            }
            leave(rank, s, *op, *end, 0);
            rank.streams[s].time = *end;
            progress = true;
          }
    }
    return finish();
  }

private:
  std::optional<double> endOf(Rank &rank, size_t s, const Op &op) {
    Stream &stream = rank.streams[s];
    double now = stream.time;
    if (stream.begun < 0)
      stream.begun = now;
    switch (op.kind) {
    case Body::Wait: {
      double when = recorded(rank, s, op);
      return when < 0 ? std::nullopt : std::optional(std::max(now, when) + prices_.issue(*rank.program, op));
    }
    case Body::Record:
      record(rank, s, op, now);
      return now + prices_.issue(*rank.program, op);
    case Body::Collective: {
      Group::Call &call = post(rank, s, op, now);
      if (call.arrived < rank.groups[op.index]->members)
        return std::nullopt;
      return call.latest + prices_.collective(*rank.program, op);
    }
    case Body::Send:
    case Body::Recv:
      return endOfMessages(rank, s, op, now);
    default:
      return now + prices_.compute(*rank.program, op);
    }
  }

  std::optional<double> endOfMessages(Rank &rank, size_t s, const Op &op, double now) {
    postMessages(rank, s, op, now);
    double last = now;
    for (uint32_t i = 0; i < op.members; ++i) {
      const Channel::Message &message = messageOf(rank, s, op, i);
      if (message.posted[0] < 0 || message.posted[1] < 0)
        return std::nullopt;
      last = std::max(last, std::max(message.posted[0], message.posted[1]) + prices_.message(*rank.program, (&op)[i]));
    }
    return last;
  }
};

// Drives ranks on workers as runtime/compute/Workers.h does: each takes the rank that was woken first, and runs it until
// all of its streams wait.
class WorkerEngine : Engine {
public:
  WorkerEngine(const planfile::ProgramT &program, const Stages &stages, const Prices &prices, unsigned workers)
      : Engine(program, stages, prices, /*all=*/true), states_(ranks().size()), workers_(workers) {}

  support::Result<Timeline> run() {
    double start = 0;
    // Runs twice, as the runtime does: what changes weights waits until all else of the step has ended.
    for (bool commits : {false, true}) {
      mayCommit_ = commits;
      begin(start);
      while (!due_.empty()) {
        auto [time, worker] = due_.top();
        due_.pop();
        advance(worker, time);
      }
      start = std::max(start, timeline_.step);
    }
    for (Rank &rank : ranks())
      for (size_t s = 0; s < rank.streams.size(); ++s)
        if (rank.current(s))
          return blocked();
    return finish();
  }

private:
  enum State : uint8_t { Asleep, Queued, Running, RunningAgain };
  struct Worker {
    Rank *rank = nullptr;   // null: idle
    size_t stream = 0;
    const Op *op = nullptr; // that ends at its due time
    bool progress = false;  // in this round over the streams
    bool idle = true;
  };

  void begin(double now) {
    queue_.clear();
    for (uint32_t i = 0; i < ranks().size(); ++i) {
      queue_.push_back(i);
      states_[i] = Queued;
    }
    for (unsigned w = 0; w < workers_.size(); ++w) {
      workers_[w] = {};
      workers_[w].idle = false;
      due_.push({now, w});
    }
  }

  uint32_t indexOf(const Rank &rank) { return uint32_t(&rank - ranks().data()); }

  void wake(uint32_t rank, double now) {
    uint8_t &state = states_[rank];
    if (state == Running)
      state = RunningAgain;
    if (state != Asleep)
      return;
    state = Queued;
    queue_.push_back(rank);
    for (unsigned w = 0; w < workers_.size(); ++w)
      if (workers_[w].idle) {
        workers_[w].idle = false;
        due_.push({now + prices_.wake(), w});
        return;
      }
  }

  void advance(unsigned w, double now) {
    Worker &worker = workers_[w];
    if (worker.op)
      end(w, now);
    while (true) {
      if (!worker.rank && !take(worker))
        return;
      if (std::optional<double> cost = next(w, now)) {
        due_.push({now + *cost, w});
        return;
      }
      uint8_t &state = states_[indexOf(*worker.rank)];
      if (state == RunningAgain) {
        state = Running;
        worker.stream = 0;
        continue;
      }
      state = Asleep;
      worker.rank = nullptr;
    }
  }

  bool take(Worker &worker) {
    worker.idle = queue_.empty();
    if (worker.idle)
      return false;
    worker.rank = &ranks()[queue_.front()];
    states_[queue_.front()] = Running;
    queue_.pop_front();
    worker.stream = 0;
    worker.progress = false;
    return true;
  }

  // Begins the next op that can run and returns what it costs; nullopt if all streams wait.
  std::optional<double> next(unsigned w, double now) {
    Worker &worker = workers_[w];
    Rank &rank = *worker.rank;
    while (true) {
      for (; worker.stream < rank.streams.size(); ++worker.stream) {
        const Op *op = rank.current(worker.stream);
        if (!op || (op->commits && !mayCommit_))
          continue;
        if (rank.streams[worker.stream].begun < 0)
          rank.streams[worker.stream].begun = now;
        if (std::optional<double> cost = costOf(rank, worker.stream, *op, now)) {
          worker.op = op;
          return cost;
        }
      }
      if (!std::exchange(worker.progress, false))
        return std::nullopt;
      worker.stream = 0;
    }
  }

  std::optional<double> costOf(Rank &rank, size_t s, const Op &op, double now) {
    switch (op.kind) {
    case Body::Wait:
      return recorded(rank, s, op) < 0 ? std::nullopt : std::optional(prices_.issue(*rank.program, op));
    case Body::Record:
      return prices_.issue(*rank.program, op);
    case Body::Collective:
      return costOfCollective(rank, s, op, now);
    case Body::Send:
    case Body::Recv:
      return costOfMessages(rank, s, op, now);
    default:
      return prices_.compute(*rank.program, op);
    }
  }

  // Lets the member that comes last do the work, with the workers that idle.
  std::optional<double> costOfCollective(Rank &rank, size_t s, const Op &op, double now) {
    Group &group = *rank.groups[op.index];
    bool isNew = !rank.streams[s].posted;
    Group::Call &call = post(rank, s, op, now);
    double issue = prices_.issue(*rank.program, op);
    if (call.end >= 0)
      return call.end <= now ? std::optional(issue) : std::nullopt;
    if (!isNew || call.arrived < group.members)
      return std::nullopt;
    unsigned sharing = 1;
    for (const Worker &worker : workers_)
      sharing += worker.idle && sharing < std::min(group.members, 4u);
    double cost = prices_.collective(*rank.program, op) / sharing + issue;
    call.end = now + cost;
    return cost;
  }

  // Lets the side that comes second copy the bytes; a member of a group that has been copied costs nothing more.
  std::optional<double> costOfMessages(Rank &rank, size_t s, const Op &op, double now) {
    bool isNew = !rank.streams[s].posted;
    postMessages(rank, s, op, now);
    double cost = isNew ? prices_.issue(*rank.program, op) : 0;
    for (uint32_t i = 0; i < op.members; ++i) {
      Channel::Message &message = messageOf(rank, s, op, i);
      int side = rank.messages[(&op)[i].index].side;
      if (isNew && message.posted[1 - side] >= 0 && message.end < 0) {
        cost += prices_.message(*rank.program, (&op)[i]);
        message.end = now + cost;
        pending_.push_back(rank.messages[(&op)[i].index].channel->ends[1 - side]);
      }
    }
    bool all = true;
    double last = now + cost;
    for (uint32_t i = 0; i < op.members; ++i) {
      double end = messageOf(rank, s, op, i).end;
      all &= end >= 0;
      last = std::max(last, end);
    }
    if (all)
      return last - now;
    // Has copied what was there already, and waits for the rest, whose senders will wake it.
    for (uint32_t peer : std::exchange(pending_, {}))
      wake(peer, now + cost);
    return std::nullopt;
  }

  void end(unsigned w, double now) {
    Worker &worker = workers_[w];
    Rank &rank = *worker.rank;
    size_t s = worker.stream;
    const Op &op = *std::exchange(worker.op, nullptr);
    worker.progress = true;
    if (op.kind == Body::Record) {
      record(rank, s, op, now);
      // Yields to another stream, as the engine does.
      if (rank.streams.size() > 1)
        ++worker.stream;
    } else if (op.kind == Body::Collective) {
      Group &group = *rank.groups[op.index];
      if (group.calls[rank.streams[s].numbers[0]].end == now || group.members == 1)
        for (uint32_t member : group.ranks)
          if (member != indexOf(rank))
            wake(member, now);
    } else if (isMessage(op)) {
      for (uint32_t peer : std::exchange(pending_, {}))
        wake(peer, now);
    }
    leave(rank, s, op, now, w);
  }

  std::vector<uint8_t> states_;
  std::vector<Worker> workers_;
  std::deque<uint32_t> queue_;
  std::vector<uint32_t> pending_; // ranks whose messages the op that begins has copied
  bool mayCommit_ = true;
  using Due = std::pair<double, unsigned>;
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> due_;
};

} // namespace

Stages simulate::layOut(const planfile::ProgramT &program) {
  Stages stages;
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage)
    stages.push_back(std::make_unique<StageProgram>(program, stage));
  return stages;
}

support::Result<Timeline> simulate::simulate(const planfile::ProgramT &program, const Stages &stages,
                                             const Prices &prices, const Machine &machine) {
  if (machine.workers == 0)
    return DeviceEngine(program, stages, prices, /*all=*/false).run();
  return WorkerEngine(program, stages, prices, machine.workers).run();
}
