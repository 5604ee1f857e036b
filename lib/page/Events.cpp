#include "lib/page/Events.h"

#include "lib/planfile/AxisNames.h"
#include "lib/report/Timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
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

  // Returns the number of an op, or of the time in which it waits for other ranks.
  uint32_t add(uint32_t stage, uint32_t op, bool waits) {
    auto [it, isNew] = known[stage].try_emplace({op, waits}, 0);
    if (isNew)
      it->second = number(rowOf(stage, op, waits));
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

  Row rowOf(uint32_t stage, uint32_t op, bool waits) {
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
    return {int64_t(strings.add(name)), waits ? Wait : kindOf(instruction), int64_t(instruction.phase),
            int64_t(strings.add(report::originTitle(origin))), int64_t(bytes), traffic};
  }
  uint32_t number(const Row &row) {
    auto [it, isNew] = numbers.try_emplace(row, rows.size());
    if (isNew)
      rows.push_back(row);
    return uint32_t(it->second);
  }

  const Subject &subject;
  std::vector<std::map<std::pair<uint32_t, bool>, uint32_t>> known; // by stage: op, waits -> number
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
  std::set<std::string> axes; // that its collectives and messages go over
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
    const std::vector<runtime::TraceEvent> &all = subject.forecast.timeline.events;
    std::vector<size_t> sorted;
    for (size_t i = 0; i < all.size(); ++i)
      if (subject.ranks[planfile::stageOf(subject.program, all[i].rank)]->rank == all[i].rank && isShown(all[i]))
        sorted.push_back(i);
    std::stable_sort(sorted.begin(), sorted.end(), [&](size_t x, size_t y) { return all[x].begin < all[y].begin; });
    for (size_t i : sorted) {
      uint32_t stage = planfile::stageOf(subject.program, all[i].rank);
      const runtime::Op &op = subject.forecast.stages[stage]->ops[all[i].op];
      Lane &lane = found[{stage, op.stream}];
      lane.stage = stage;
      lane.stream = op.stream;
      lane.reduces |= op.kind == Body::Collective;
      lane.sends |= op.kind == Body::Send || op.kind == Body::Recv;
      lane.computes |= op.kind == Body::Launch || op.kind == Body::Matmul;
      if (int64_t traffic = subject.trafficOf(stage, all[i].op); traffic >= 0)
        lane.axes.insert(planfile::joinedUserNames(*subject.program.mesh, subject.index.traffic[size_t(traffic)].axes));
      add(lane, all[i], subject.forecast.timeline.moved[i]);
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

  // Adds an event in one part, or two where it waits for other ranks until `moved`.
  void add(Lane &lane, const runtime::TraceEvent &event, uint64_t moved) {
    bool communicates = subject.forecast.stages[lane.stage]->ops[event.op].kind == Body::Collective ||
                        planfile::messageOf(subject.forecast.stages[lane.stage]->instructionOf(event.op));
    int64_t begin = units(event.begin), middle = communicates ? units(moved) : begin, end = units(event.end);
    if (middle > begin)
      add(lane, event, /*waits=*/true, begin, middle);
    if (end > middle)
      add(lane, event, /*waits=*/false, middle, end);
  }

  void add(Lane &lane, const runtime::TraceEvent &event, bool waits, int64_t begin, int64_t end) {
    if (lane.runs.empty() || lane.runs.back().entry != event.entry)
      lane.runs.push_back({event.entry, begin, {}});
    Run &run = lane.runs.back();
    run.events.push_back({ops.add(lane.stage, event.op, waits), begin - run.start, end - run.start});
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
      std::string name = lane.computes ? "compute" : lane.reduces && lane.sends ? "traffic" : lane.reduces ? "collectives" : "messages";
      if (!lane.computes && lane.axes.size() == 1)
        name = *lane.axes.begin() + " " + name;
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
        char letter = report::letterOf(procedure.kind);
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
