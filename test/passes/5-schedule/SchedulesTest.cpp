// Runs schedules on paper: every stage against the others, step by step and exchange by exchange.
#include "lib/schedules/Exchanges.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>

using namespace llmc;

namespace {

enum class Kind { Inference, GPipe, OneFOneB, Interleaved, ZeroBubble };

// Represents the steps of all stages: p stages, m micro-batches, v chunks a stage.
struct Pipeline {
  Kind kind;
  int64_t p, m, v;
  std::vector<std::vector<Step>> stages;

  Pipeline(Kind kind, int64_t p, int64_t m, int64_t v = 1) : kind(kind), p(p), m(m), v(v) {
    for (int64_t s = 0; s < p; ++s)
      stages.push_back(kind == Kind::Inference     ? forwards(m)
                       : kind == Kind::GPipe       ? gpipe(m)
                       : kind == Kind::OneFOneB    ? oneFOneB(m, s, p)
                       : kind == Kind::Interleaved ? interleaved(m, v, s, p)
                                                   : zeroBubble(m, s, p));
  }
  std::string describe() const {
    const char *names[] = {"inference", "gpipe", "1f1b", "interleaved", "zero-bubble"};
    return std::string(names[int(kind)]) + ", p " + std::to_string(p) + ", m " + std::to_string(m) +
           ", v " + std::to_string(v);
  }
  // Returns the kinds of steps that a micro-batch runs on a stage, in order.
  std::vector<StepKind> kinds() const {
    return kind == Kind::Inference    ? std::vector{StepKind::F}
           : kind == Kind::ZeroBubble ? std::vector{StepKind::F, StepKind::B, StepKind::W}
                                      : std::vector{StepKind::F, StepKind::B};
  }
  int64_t virtualStage(const Step &step, int64_t s) const { return step.chunk * p + s; }
};

std::vector<Pipeline> pipelines() {
  std::vector<Pipeline> all;
  for (int64_t p = 1; p <= 16; ++p) {
    for (int64_t m :
         std::set<int64_t>{1, 2, 3, std::max<int64_t>(p - 1, 1), p, p + 1, 2 * p, 3 * p + 2})
      for (Kind kind : {Kind::Inference, Kind::GPipe, Kind::OneFOneB, Kind::ZeroBubble})
        all.emplace_back(kind, p, m);
    for (int64_t v = 1; v <= 4; ++v)
      for (int64_t groups : {1, 2, 3})
        all.emplace_back(Kind::Interleaved, p, groups * p, v);
  }
  return all;
}

int64_t lengthOf(const std::vector<std::vector<int64_t>> &columns) {
  int64_t length = 0;
  for (const auto &own : columns)
    length = std::max(length, own.back() + 1);
  return length;
}

// Returns the most micro-batches of all chunks that a stage holds at a time, from forward to their
// end.
int64_t mostInFlight(const Pipeline &pipeline, size_t s) {
  int64_t held = 0, most = 0;
  for (const Step &step : pipeline.stages[s]) {
    held += step.kind == StepKind::F;
    most = std::max(most, held);
    held -= step.kind == pipeline.kinds().back();
  }
  return most;
}

} // namespace

TEST(Schedules, EveryStepRunsOnceAndInItsTurn) {
  for (const Pipeline &pipeline : pipelines())
    for (size_t s = 0; s < pipeline.stages.size(); ++s) {
      std::map<std::tuple<StepKind, int64_t, int64_t>, size_t> at;
      const std::vector<Step> &steps = pipeline.stages[s];
      for (size_t i = 0; i < steps.size(); ++i)
        EXPECT_TRUE(at.insert({{steps[i].kind, steps[i].chunk, steps[i].microBatch}, i}).second)
            << pipeline.describe() << " runs a step twice on stage " << s;
      std::vector<StepKind> kinds = pipeline.kinds();
      EXPECT_EQ(at.size(), pipeline.v * pipeline.m * kinds.size()) << pipeline.describe();
      for (int64_t chunk = 0; chunk < pipeline.v; ++chunk)
        for (int64_t i = 0; i < pipeline.m; ++i)
          for (size_t k = 0; k < kinds.size(); ++k) {
            ASSERT_TRUE(at.count({kinds[k], chunk, i})) << pipeline.describe();
            if (k > 0)
              EXPECT_LT(at[std::tuple(kinds[k - 1], chunk, i)], at[std::tuple(kinds[k], chunk, i)]);
          }
    }
}

TEST(Schedules, WaitNoLongerThanTheirPapersSay) {
  for (const Pipeline &pipeline : pipelines()) {
    auto columns = columnsOf(pipeline.stages, pipeline.v);
    ASSERT_TRUE(columns.has_value()) << pipeline.describe();
    int64_t p = pipeline.p, m = pipeline.m, v = pipeline.v, length = lengthOf(*columns);
    if (pipeline.kind == Kind::Inference)
      EXPECT_EQ(length, m + p - 1) << pipeline.describe();
    else if (pipeline.kind == Kind::GPipe || pipeline.kind == Kind::OneFOneB)
      EXPECT_EQ(length, 2 * (m + p - 1)) << pipeline.describe();
    else if (pipeline.kind == Kind::Interleaved)
      EXPECT_EQ(length, 2 * v * m + 2 * (p - 1)) << pipeline.describe();
    else if (m >= p)
      EXPECT_EQ(length, 3 * m + p - 1) << pipeline.describe();
    else if (m >= 2 && p >= 2)
      EXPECT_LT(length, 3 * (m + p - 1))
          << pipeline.describe(); // what whole backwards of 2 columns take
  }
}

TEST(Schedules, ColumnsFollowWhatStepsNeed) {
  for (const Pipeline &pipeline : pipelines()) {
    auto columns = columnsOf(pipeline.stages, pipeline.v);
    ASSERT_TRUE(columns.has_value());
    std::map<std::tuple<StepKind, int64_t, int64_t>, int64_t>
        at; // kind, virtual stage, micro-batch
    for (int64_t s = 0; s < pipeline.p; ++s)
      for (size_t i = 0; i < pipeline.stages[s].size(); ++i) {
        const Step &step = pipeline.stages[s][i];
        at[{step.kind, pipeline.virtualStage(step, s), step.microBatch}] = (*columns)[s][i];
        EXPECT_TRUE(i == 0 || (*columns)[s][i] > (*columns)[s][i - 1]) << pipeline.describe();
      }
    for (auto [step, column] : at) {
      auto [kind, k, microBatch] = step;
      if (auto before = at.find({kind, k + (kind == StepKind::F ? -1 : 1), microBatch});
          kind != StepKind::W && before != at.end())
        EXPECT_LT(before->second, column) << pipeline.describe();
    }
  }
}

TEST(Schedules, OrdersThatBlockEachOtherHaveNoColumns) {
  // Lets the second stage wait for the micro-batch that the first one runs behind its backward.
  Step first{StepKind::F, 0, 0}, second{StepKind::F, 0, 1}, back{StepKind::B, 0, 0},
      last{StepKind::B, 0, 1};
  EXPECT_FALSE(
      columnsOf({{first, back, second, last}, {second, first, back, last}}, 1).has_value());
  // Lets nobody send what the second stage waits for.
  EXPECT_FALSE(columnsOf({{first}, {first, second}}, 1).has_value());
}

TEST(Schedules, StagesHoldAsManyMicroBatchesAsTheirPapersSay) {
  for (const Pipeline &pipeline : pipelines())
    for (int64_t s = 0; s < pipeline.p; ++s) {
      int64_t p = pipeline.p, m = pipeline.m, v = pipeline.v, most = mostInFlight(pipeline, s);
      switch (pipeline.kind) {
      case Kind::Inference:
        EXPECT_EQ(most, 1) << pipeline.describe();
        break;
      case Kind::GPipe:
        EXPECT_EQ(most, m) << pipeline.describe();
        break;
      case Kind::OneFOneB:
        EXPECT_EQ(most, std::min(m, p - s)) << pipeline.describe();
        break;
      case Kind::Interleaved:
        EXPECT_EQ(most, std::min(v * m, 2 * (p - s - 1) + (v - 1) * p + 1)) << pipeline.describe();
        break;
      case Kind::ZeroBubble:
        EXPECT_LE(most, std::min(m, p)) << pipeline.describe();
        break;
      }
    }
}

//===-- Slots -----------------------------------------------------------------===//

namespace {

// Lists the kinds of steps that touch a pool: all that a micro-batch runs, and where backward is
// split those up to backward, or from it on.
std::vector<std::set<StepKind>> poolKinds(const Pipeline &pipeline) {
  std::vector<StepKind> kinds = pipeline.kinds();
  std::vector<std::set<StepKind>> pools = {{kinds.begin(), kinds.end()}};
  if (kinds.size() == 3) {
    pools.push_back({kinds[0], kinds[1]});
    pools.push_back({kinds[1], kinds[2]});
  }
  return pools;
}

} // namespace

TEST(Slots, NoTwoMicroBatchesHaveOneAtATime) {
  for (const Pipeline &pipeline : pipelines())
    for (const auto &steps : pipeline.stages)
      for (int64_t chunk = 0; chunk < pipeline.v; ++chunk)
        for (const std::set<StepKind> &kinds : poolKinds(pipeline)) {
          Slots slots = assignSlots(steps, chunk, kinds);
          std::map<int64_t, int64_t> holder, freed; // of a slot
          int64_t most = 0;
          std::map<int64_t, int64_t> left; // steps of a micro-batch that are still to come
          for (const Step &step : steps)
            left[step.microBatch] += step.chunk == chunk && kinds.count(step.kind);
          for (size_t i = 0; i < steps.size(); ++i) {
            int64_t microBatch = steps[i].microBatch;
            if (steps[i].chunk != chunk || !kinds.count(steps[i].kind))
              continue;
            ASSERT_TRUE(slots.of.count(microBatch)) << pipeline.describe();
            int64_t slot = slots.of[microBatch];
            auto [held, isNew] = holder.insert({slot, microBatch});
            EXPECT_EQ(held->second, microBatch)
                << pipeline.describe() << " gives slot " << slot << " twice";
            if (isNew) {
              for (int64_t lower = 0; lower < slot; ++lower)
                EXPECT_TRUE(holder.count(lower)) << pipeline.describe() << " passes by a free slot";
              EXPECT_EQ(slots.freedBy[microBatch], freed.count(slot) ? freed[slot] : -1)
                  << pipeline.describe();
            }
            most = std::max(most, int64_t(holder.size()));
            if (--left[microBatch] == 0) {
              holder.erase(slot);
              freed[slot] = int64_t(i);
            }
          }
          EXPECT_EQ(slots.count, most) << pipeline.describe();
        }
}

//===-- Exchanges -------------------------------------------------------------===//

namespace {

// Names a message: its kind, the virtual stage that receives it, its micro-batch.
using Message = std::tuple<StepKind, int64_t, int64_t>;

// Plays the exchanges of all stages. `poolOf` returns the kinds of steps that touch the pool in
// which the messages of a kind lie.
class Play {
public:
  using PoolOf = std::function<std::set<StepKind>(StepKind)>;
  using MayJoin = std::function<bool(size_t, size_t, size_t)>;

  Play(const Pipeline &pipeline, const PoolOf &poolOf, const MayJoin &mayJoin)
      : pipeline(pipeline), next(pipeline.p, 0) {
    for (size_t s = 0; s < pipeline.stages.size(); ++s)
      for (int64_t chunk = 0; chunk < pipeline.v; ++chunk)
        for (StepKind kind : {StepKind::F, StepKind::B})
          slots[{s, chunk, kind}] = assignSlots(pipeline.stages[s], chunk, poolOf(kind));
    auto columns = columnsOf(pipeline.stages, pipeline.v);
    exchanges = exchangesOf(
        pipeline.stages, *columns, pipeline.v, [&](size_t s, size_t i) { return freedBy(s, i); },
        mayJoin);
  }

  // Checks that every message has both ends, each once, behind what it needs and before what needs
  // it.
  void expectEnds() const {
    std::map<Message, int> sent, received;
    for (int64_t s = 0; s < pipeline.p; ++s) {
      size_t before = 0;
      for (const Exchange &exchange : exchanges[s]) {
        EXPECT_TRUE(exchange.after >= before && !exchange.ends.empty()) << pipeline.describe();
        before = exchange.after;
        for (const MessageEnd &end : exchange.ends) {
          ++(end.sends ? sent : received)[messageOf(s, end)];
          EXPECT_TRUE(end.sends ? end.step < exchange.after : end.step >= exchange.after)
              << pipeline.describe() << ": a message of stage " << s << " travels at a wrong time";
          if (!end.sends)
            EXPECT_LT(freedBy(s, end.step), int64_t(exchange.after))
                << pipeline.describe() << ": stage " << s
                << " receives into a slot that it still uses";
        }
      }
    }
    int64_t last = pipeline.p * pipeline.v - 1;
    EXPECT_EQ(int64_t(sent.size()), (pipeline.kind == Kind::Inference ? 1 : 2) * last * pipeline.m)
        << pipeline.describe();
    EXPECT_TRUE(sent == received) << pipeline.describe() << " lacks an end of a message";
    for (auto [message, count] : sent)
      EXPECT_EQ(count, 1) << pipeline.describe();
  }

  // Checks that the exchanges have one order: whenever all stages stand before one, some of them
  // are at the exchanges that their messages link, so that these take place at once.
  void expectOneOrder() {
    size_t left = 0;
    for (const auto &own : exchanges)
      left += own.size();
    for (bool moved = true; moved && left > 0;) {
      moved = false;
      for (size_t s = 0; s < exchanges.size(); ++s) {
        std::set<size_t> linked;
        if (next[s] == exchanges[s].size() || !link(s, linked))
          continue;
        expectSameOrder(linked);
        for (size_t one : linked)
          ++next[one]; // they take place at once
        left -= linked.size();
        moved = true;
      }
    }
    EXPECT_EQ(left, 0u) << pipeline.describe() << " blocks itself";
  }

  const Exchange *find(size_t s, const MessageEnd &end) const {
    for (const Exchange &exchange : exchanges[s])
      for (const MessageEnd &one : exchange.ends)
        if (one.sends == end.sends && one.step == end.step)
          return &exchange;
    return nullptr;
  }

  std::vector<std::vector<Exchange>> exchanges;

private:
  // Returns the step that had the slot last into which a step's message is received; -1: none.
  int64_t freedBy(size_t s, size_t i) const {
    const Step &step = pipeline.stages[s][i];
    return slots.at({s, step.chunk, step.kind}).freedBy.at(step.microBatch);
  }
  Message messageOf(size_t s, const MessageEnd &end) const {
    const Step &step = pipeline.stages[s][end.step];
    int64_t further = !end.sends ? 0 : step.kind == StepKind::F ? 1 : -1;
    return {step.kind, pipeline.virtualStage(step, int64_t(s)) + further, step.microBatch};
  }
  // Returns the stage at the other end of a message.
  size_t partnerOf(size_t s, const MessageEnd &end) const {
    auto [kind, receiver, microBatch] = messageOf(s, end);
    int64_t sender = receiver + (kind == StepKind::F ? -1 : 1);
    return (end.sends ? receiver : sender) % pipeline.p;
  }
  bool has(size_t s, const Message &message, bool sends) const {
    const std::vector<MessageEnd> &ends = exchanges[s][next[s]].ends;
    return std::any_of(ends.begin(), ends.end(), [&](const MessageEnd &end) {
      return end.sends == sends && messageOf(s, end) == message;
    });
  }
  // Collects the stages that the messages of a stage's next exchange link; false if one of them is
  // elsewhere.
  bool link(size_t s, std::set<size_t> &linked) const {
    if (!linked.insert(s).second)
      return true;
    for (const MessageEnd &end : exchanges[s][next[s]].ends) {
      size_t other = partnerOf(s, end);
      if (next[other] == exchanges[other].size() || !has(other, messageOf(s, end), !end.sends) ||
          !link(other, linked))
        return false;
    }
    return true;
  }
  // Checks that messages from one stage to another have one order at both ends of an exchange.
  void expectSameOrder(const std::set<size_t> &linked) const {
    std::map<std::pair<size_t, size_t>, std::vector<Message>> sent, received; // from, to
    for (size_t s : linked)
      for (const MessageEnd &end : exchanges[s][next[s]].ends) {
        size_t other = partnerOf(s, end);
        (end.sends ? sent[{s, other}] : received[{other, s}]).push_back(messageOf(s, end));
      }
    EXPECT_TRUE(sent == received) << pipeline.describe()
                                  << " matches messages of an exchange wrongly";
  }

  const Pipeline &pipeline;
  std::vector<size_t> next; // exchange of each stage
  std::map<std::tuple<size_t, int64_t, StepKind>, Slots>
      slots; // of a stage, a chunk, a kind of messages
};

// Plays a pipeline with the messages in each choice of pools.
void playAll(const Pipeline &pipeline, const Play::MayJoin &mayJoin) {
  for (const std::set<StepKind> &activations : poolKinds(pipeline))
    for (const std::set<StepKind> &cotangents : poolKinds(pipeline)) {
      if (!activations.count(StepKind::F))
        continue; // a message lies in a pool that its step touches
      Play play(
          pipeline, [&](StepKind kind) { return kind == StepKind::F ? activations : cotangents; },
          mayJoin);
      play.expectEnds();
      play.expectOneOrder();
    }
}

} // namespace

TEST(Exchanges, HaveOneOrderAndFindTheirSlotsFree) {
  for (const Pipeline &pipeline : pipelines())
    playAll(pipeline, [](size_t, size_t, size_t) { return true; });
}

TEST(Exchanges, HaveOneOrderWhereNoSendMayJoinAReceive) {
  for (const Pipeline &pipeline : pipelines())
    playAll(pipeline, [](size_t, size_t, size_t) { return false; });
}

TEST(Exchanges, HaveOneOrderWhereSomeSendsMayJoin) {
  std::mt19937 random(11);
  for (const Pipeline &pipeline : pipelines())
    playAll(pipeline, [&](size_t, size_t, size_t) { return random() % 3 != 0; });
}

TEST(Exchanges, CotangentsTravelFirstWhereTheyMayNotJoin) {
  Pipeline pipeline(Kind::OneFOneB, 4, 8);
  auto main = [](StepKind) { return std::set<StepKind>{StepKind::F, StepKind::B}; };
  Play joined(pipeline, main, [](size_t, size_t, size_t) { return true; });
  Play apart(pipeline, main, [&](size_t s, size_t sent, size_t needed) {
    return s != 2 || pipeline.stages[s][sent].kind == pipeline.stages[s][needed].kind;
  });
  size_t grouped = 0;
  for (size_t s = 0; s < 4; ++s)
    for (const Exchange &exchange : joined.exchanges[s]) {
      std::set<StepKind> kinds;
      for (const MessageEnd &end : exchange.ends)
        kinds.insert(pipeline.stages[s][end.step].kind);
      grouped += kinds.size() > 1;
    }
  EXPECT_GT(grouped, 0u);
  // Looks at the stage that says no: each direction of a column travels alone, cotangents first.
  for (const Exchange &exchange : joined.exchanges[2])
    for (const MessageEnd &sent : exchange.ends)
      for (const MessageEnd &needed : exchange.ends)
        if (sent.sends && !needed.sends &&
            pipeline.stages[2][sent.step].kind != pipeline.stages[2][needed.step].kind) {
          const Exchange *a = apart.find(2, sent), *b = apart.find(2, needed);
          ASSERT_TRUE(a && b && a != b);
          EXPECT_EQ(a < b, pipeline.stages[2][sent.step].kind == StepKind::B);
          EXPECT_EQ(a->after, b->after);
        }
}

// Lets a forward of ZB-H1 begin as soon as its activations are there: cotangents of the same column come later.
TEST(Exchanges, ActivationsThatAreNeededFirstComeFirst) {
  std::vector<std::vector<Step>> stages;
  for (int64_t s = 0; s < 4; ++s)
    stages.push_back(zeroBubble(12, s, 4));
  auto exchanges = exchangesOf(
      stages, *columnsOf(stages, 1), 1, [](size_t, size_t) { return -1; }, [](size_t, size_t, size_t) { return true; });
  int divided = 0;
  for (size_t s = 0; s < stages.size(); ++s)
    for (size_t e = 0; e < exchanges[s].size(); ++e) {
      bool sends = false, forward = false, backward = false;
      for (const MessageEnd &end : exchanges[s][e].ends) {
        sends |= end.sends;
        (stages[s][end.step].kind == StepKind::F ? forward : backward) = true;
      }
      EXPECT_TRUE(sends || !forward || !backward) << "stage " << s << ", exchange " << e;
      divided += e > 0 && backward && !sends && exchanges[s][e - 1].after == exchanges[s][e].after;
    }
  EXPECT_GT(divided, 0);
}

TEST(Exchanges, MessagesOfOneChannelAndColumnTravelOneAfterTheOther) {
  // Frees the slot of micro-batch 1 when the second stage has run micro-batch 0, in the column in
  // which the first one makes micro-batch 3; that of micro-batch 2 is free before.
  std::vector<Step> steps = forwards(4);
  auto exchanges = exchangesOf(
      {steps, steps}, {{0, 1, 2, 3}, {3, 4, 5, 6}}, 1,
      [](size_t, size_t i) { return i == 1 ? 0 : -1; },
      [](size_t, size_t, size_t) { return true; });
  for (size_t s = 0; s < 2; ++s) {
    std::vector<int64_t> order;
    for (const Exchange &exchange : exchanges[s]) {
      ASSERT_EQ(exchange.ends.size(), 1u);
      EXPECT_EQ(exchange.ends[0].sends, s == 0);
      order.push_back(steps[exchange.ends[0].step].microBatch);
    }
    EXPECT_EQ(order, (std::vector<int64_t>{0, 2, 1, 3}));
  }
}
