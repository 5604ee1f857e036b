#include "lib/page/Events.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

using namespace llmc;
using namespace llmc::page;
using planfile::Body;
using support::OrderedJson;

namespace {

constexpr size_t kMostNumbers = 1'500'000; // of all blocks: some megabytes of text

enum Kind { Product, Attention, Kernel, Copy, Collective, Message, Wait };

Kind kindOf(const planfile::InstructionT &instruction) {
  switch (instruction.body.type) {
  case Body::Matmul:
    return Product;
  case Body::Launch:
    return instruction.body.AsLaunch()->attention ? Attention : Kernel;
  case Body::Collective:
    return Collective;
  case Body::Send:
  case Body::Recv:
    return Message;
  case Body::Wait:
    return Wait;
  default:
    return Copy;
  }
}

// Numbers strings in the order of their first use.
class Strings {
public:
  size_t add(const std::string &text) {
    auto [it, isNew] = numbers.try_emplace(text, list.size());
    if (isNew)
      list.push_back(text);
    return it->second;
  }
  std::vector<std::string> list;

private:
  std::map<std::string, size_t> numbers;
};

// Collects the ops that some event is of, each once.
class Ops {
public:
  explicit Ops(const Subject &subject) : subject(subject), known(subject.stages()) {}

  uint32_t add(uint32_t stage, uint32_t op) {
    auto [it, isNew] = known[stage].try_emplace(op, 0);
    if (isNew)
      it->second = number(rowOf(stage, op));
    return it->second;
  }
  OrderedJson json() const {
    OrderedJson all = OrderedJson::array();
    for (const Row &row : rows)
      all.push_back(OrderedJson(row));
    return all;
  }
  Strings strings;

private:
  using Row = std::array<int64_t, 6>;

  Row rowOf(uint32_t stage, uint32_t op) {
    const runtime::StageProgram &program = *subject.forecast.stages[stage];
    const planfile::InstructionT &instruction = program.instructionOf(op);
    const planfile::OriginT &origin = *subject.program.origins[instruction.origin];
    int64_t traffic = subject.trafficOf(stage, op);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < program.ops[op].buffers; ++i)
      bytes += program.buffers[program.ops[op].firstBuffer + i].size;
    if (const planfile::CollectiveT *collective = instruction.body.AsCollective())
      bytes = planfile::payloadBytes(*subject.program.mesh, *collective);
    std::string name = simulate::nameOf(subject.program, program, op);
    return {int64_t(strings.add(name)), kindOf(instruction), int64_t(instruction.phase),
            int64_t(strings.add(report::originTitle(origin))), int64_t(bytes), traffic};
  }
  uint32_t number(const Row &row) {
    auto [it, isNew] = numbers.try_emplace(row, rows.size());
    if (isNew)
      rows.push_back(row);
    return uint32_t(it->second);
  }

  const Subject &subject;
  std::vector<std::map<uint32_t, uint32_t>> known; // by stage: op -> number
  std::map<Row, size_t> numbers;
  std::vector<Row> rows;
};

struct Event {
  uint32_t op = 0;
  int64_t begin = 0, end = 0; // units from the start of the block
};

// Collects blocks, and finds one that is near enough to events.
class Blocks {
public:
  explicit Blocks(int64_t tolerance) : tolerance(tolerance) {}

  size_t add(uint32_t stage, const std::vector<Event> &events) {
    std::vector<uint32_t> key = {stage};
    for (const Event &event : events)
      key.push_back(event.op);
    std::vector<size_t> &candidates = byOps[key];
    for (size_t i = candidates.size(); i-- > 0 && candidates.size() - i <= kMostTried;)
      if (isNear(list[candidates[i]], events))
        return candidates[i];
    candidates.push_back(list.size());
    numbers += 3 * events.size();
    list.push_back(events);
    return list.size() - 1;
  }
  OrderedJson json() const {
    OrderedJson all = OrderedJson::array();
    for (const auto &events : list) {
      OrderedJson block = OrderedJson::array();
      int64_t end = 0;
      for (const Event &event : events) {
        block.insert(block.end(), {event.op, event.begin - end, event.end - event.begin});
        end = event.end;
      }
      all.push_back(std::move(block));
    }
    return all;
  }
  size_t size() const { return numbers; }

private:
  static constexpr size_t kMostTried = 256;

  bool isNear(const std::vector<Event> &a, const std::vector<Event> &b) const {
    for (size_t i = 0; i < a.size(); ++i)
      if (std::abs(a[i].begin - b[i].begin) > tolerance || std::abs(a[i].end - b[i].end) > tolerance)
        return false;
    return true;
  }

  int64_t tolerance;
  size_t numbers = 0;
  std::vector<std::vector<Event>> list;
  std::map<std::vector<uint32_t>, std::vector<size_t>> byOps;
};

// Holds the events of one stream of one row of a schedule.
struct Run {
  uint32_t entry = 0;
  int64_t start = 0; // units
  std::vector<Event> events;
};

struct Lane {
  uint32_t stage = 0, stream = 0;
  std::vector<Run> runs;
  bool computes = false, reduces = false, sends = false;
};

class Encoder {
public:
  explicit Encoder(const Subject &subject) : subject(subject), ops(subject) {
    double step = std::max(subject.forecast.timeline.step, 1e-9);
    unit = std::max(1.0, std::round(std::pow(10, std::floor(std::log10(step)) + 3))); // nanoseconds: a millionth
    collect();
  }

  OrderedJson json() {
    OrderedJson made = {{"unit_s", unit / 1e9}};
    for (int64_t tolerance = 1;; tolerance *= 2) {
      Blocks blocks(tolerance);
      OrderedJson runs = encode(blocks);
      if (blocks.size() > kMostNumbers && tolerance < kMostTolerance)
        continue;
      made["tolerance"] = tolerance;
      made["events"] = events;
      made["kinds"] = kindsOfEvents();
      made["strings"] = ops.strings.list;
      made["ops"] = ops.json();
      made["lanes"] = lanesJson();
      made["blocks"] = blocks.json();
      made["runs"] = std::move(runs);
      made["entries"] = entries();
      return made;
    }
  }

private:
  static constexpr int64_t kMostTolerance = 1 << 14; // a hundredth of a step

  // Sorts the events that are shown into lanes and runs.
  void collect() {
    std::map<std::pair<uint32_t, uint32_t>, Lane> found;
    std::vector<const runtime::TraceEvent *> sorted;
    for (const auto &event : subject.forecast.timeline.events)
      if (subject.ranks[planfile::stageOf(subject.program, event.rank)]->rank == event.rank && isShown(event))
        sorted.push_back(&event);
    std::stable_sort(sorted.begin(), sorted.end(), [](auto *x, auto *y) { return x->begin < y->begin; });
    for (const auto *event : sorted) {
      uint32_t stage = planfile::stageOf(subject.program, event->rank);
      const runtime::Op &op = subject.forecast.stages[stage]->ops[event->op];
      Lane &lane = found[{stage, op.stream}];
      lane.stage = stage;
      lane.stream = op.stream;
      lane.reduces |= op.kind == Body::Collective;
      lane.sends |= op.kind == Body::Send || op.kind == Body::Recv;
      lane.computes |= op.kind == Body::Launch || op.kind == Body::Matmul;
      add(lane, *event);
    }
    for (auto &[place, lane] : found)
      lanes.push_back(std::move(lane));
  }

  bool isShown(const runtime::TraceEvent &event) const {
    const auto &op = subject.forecast.stages[planfile::stageOf(subject.program, event.rank)]->ops[event.op];
    if (op.kind == Body::Record || (op.kind == Body::Wait && op.stream != 0))
      return false;
    return units(event.end) > units(event.begin);
  }

  void add(Lane &lane, const runtime::TraceEvent &event) {
    if (lane.runs.empty() || lane.runs.back().entry != event.entry)
      lane.runs.push_back({event.entry, units(event.begin), {}});
    Run &run = lane.runs.back();
    run.events.push_back({ops.add(lane.stage, event.op), units(event.begin) - run.start, units(event.end) - run.start});
    ++events;
  }

  OrderedJson encode(Blocks &blocks) const {
    OrderedJson all = OrderedJson::array();
    for (const Lane &lane : lanes) {
      OrderedJson runs = OrderedJson::array();
      for (const Run &run : lane.runs)
        runs.insert(runs.end(), {run.entry, blocks.add(lane.stage, run.events), run.start});
      all.push_back(std::move(runs));
    }
    return all;
  }

  OrderedJson lanesJson() const {
    OrderedJson all = OrderedJson::array();
    for (const Lane &lane : lanes) {
      std::string name = lane.computes ? "compute" : lane.reduces && lane.sends ? "collectives, messages"
                         : lane.reduces ? "collectives" : "messages";
      all.push_back({{"stage", lane.stage}, {"rank", subject.ranks[lane.stage]->rank}, {"stream", lane.stream}, {"name", name}});
    }
    return all;
  }

  OrderedJson entries() const {
    OrderedJson all = OrderedJson::array();
    for (uint32_t stage = 0; stage < subject.stages(); ++stage) {
      OrderedJson rows = OrderedJson::array();
      const planfile::StageT &plan = *subject.program.stages[stage];
      for (size_t row = 0; row < plan.table.size(); ++row) {
        const planfile::ProcedureT &procedure = *plan.procedures[plan.table[row]->procedure];
        char letter = Subject::letterOf(procedure.kind);
        const Span &span = subject.computed[stage][row];
        bool ran = span.ran();
        rows.insert(rows.end(), {letter ? std::string(1, letter) : "", procedure.chunk, plan.table[row]->micro_batch,
                                 ran ? units(span.begin * 1e9) : 0, ran ? units(span.end * 1e9) : 0});
      }
      all.push_back(std::move(rows));
    }
    return all;
  }

  int64_t units(double nanoseconds) const { return int64_t(nanoseconds / unit + 0.5); }
  int64_t units(uint64_t nanoseconds) const { return units(double(nanoseconds)); }

  const Subject &subject;
  Ops ops;
  double unit = 1;
  size_t events = 0;
  std::vector<Lane> lanes;
};

} // namespace

const std::vector<const char *> &page::kindsOfEvents() {
  static const std::vector<const char *> kinds = {"product", "attention", "kernel", "copy", "collective", "message", "wait"};
  return kinds;
}

OrderedJson page::timelineJson(const Subject &subject) { return Encoder(subject).json(); }
