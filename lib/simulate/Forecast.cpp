#include "lib/simulate/Forecast.h"

#include "lib/planfile/Program.h"
#include "lib/simulate/DevicePrices.h"
#include "lib/simulate/HostPrices.h"
#include "lib/support/Counted.h"
#include "runtime/compute/MatmulLibrary.h"
#include "runtime/cpu/InstructionName.h"
#include "runtime/cpu/TraceWriter.h"

#include <algorithm>
#include <cstdio>

using namespace llmc;
using namespace llmc::simulate;
using support::error;
using support::text;

namespace {

unsigned workersOf(const planfile::ProgramT &program, const cost::HostMachine &host) {
  return std::max(1u, std::min(host.cores, planfile::rankCount(*program.mesh)));
}

unsigned threadsOf(const planfile::ProgramT &program, const cost::HostMachine &host) {
  return program.threads_per_rank ? program.threads_per_rank
                                  : std::max(1u, host.cores / planfile::rankCount(*program.mesh));
}

std::string inSeconds(double seconds, double of) {
  char line[64];
  std::snprintf(line, sizeof line, "%10.4g s %5.1f %%", seconds, of > 0 ? 100 * seconds / of : 0);
  return line;
}

std::string inMiB(double bytes) {
  char line[32];
  std::snprintf(line, sizeof line, "%.1f MiB", bytes / (1 << 20));
  return line;
}

// Returns the rank of each stage that computes longest.
std::vector<const RankTime *> busiest(const Timeline &timeline) {
  std::map<uint32_t, const RankTime *> best;
  for (const RankTime &rank : timeline.ranks) {
    const RankTime *&slot = best[rank.stage];
    if (!slot || rank.compute > slot->compute)
      slot = &rank;
  }
  std::vector<const RankTime *> list;
  for (auto [stage, rank] : best)
    list.push_back(rank);
  return list;
}

} // namespace

double simulate::processPeak(const planfile::ProgramT &program, const cost::HostMachine &host) {
  unsigned threads = threadsOf(program, host);
  return host.of(threads).processBytes + arenaBytes(program) + scratchBytes(program, workersOf(program, host), threads);
}

double simulate::arenaBytes(const planfile::ProgramT &program) {
  double sum = 0, each = double(planfile::rankCount(*program.mesh)) / double(program.stages.size());
  for (const auto &stage : program.stages)
    sum += double(stage->arena_bytes) * each;
  return sum;
}

double simulate::scratchBytes(const planfile::ProgramT &program, unsigned workers, unsigned threads) {
  std::string why;
  std::unique_ptr<runtime::MatmulLibrary> library = runtime::MatmulLibrary::open(why);
  if (!library)
    return 0;
  for (const auto &stage : program.stages)
    for (const auto &procedure : stage->procedures)
      for (const auto &instruction : procedure->instructions)
        if (const planfile::MatmulT *product = instruction->body.AsMatmul(); product && !product->routing)
          runtime::splitMatmul(*library, *product, threads);
  return double(library->scratchBytes()) * workers * threads;
}

support::Result<Forecast> simulate::forecast(const planfile::ProgramT &program, const cost::Machine &machine) {
  if (program.mode != planfile::Mode::Train)
    return error("predicts a step of a training, and the program was compiled with --infer");
  Forecast made;
  made.stages = layOut(program);
  std::unique_ptr<Prices> prices;
  if (const auto &host = machine.cluster.host) {
    made.workers = workersOf(program, *host);
    made.threads = threadsOf(program, *host);
    made.processPeak = simulate::processPeak(program, *host);
    prices = std::make_unique<HostPrices>(program, *host, made.threads);
  } else {
    prices = std::make_unique<DevicePrices>(program, machine);
  }
  auto timeline = simulate(program, made.stages, *prices, {made.workers});
  if (!timeline)
    return timeline.takeError();
  made.timeline = std::move(*timeline);
  double idle = 0;
  for (const RankTime &rank : made.timeline.ranks)
    idle += rank.idle;
  made.bubble = idle / (double(made.timeline.ranks.size()) * made.timeline.step);
  for (const auto &stage : program.stages)
    made.arena = std::max<uint64_t>(made.arena, stage->arena_bytes);
  return made;
}

std::string simulate::forecastText(const Forecast &forecast, const cost::Machine &machine) {
  const Timeline &timeline = forecast.timeline;
  std::string out = text("simulated on ", machine.cluster.name);
  if (forecast.workers)
    out += text(": ", support::counted(forecast.workers, "worker"), " of ", support::counted(forecast.threads, "thread"));
  out += text("\nstep       ", inSeconds(timeline.step, timeline.step), "\n");
  for (const RankTime *rank : busiest(timeline)) {
    out += text("rank ", rank->rank, ", stage ", rank->stage, "\n  compute  ", inSeconds(rank->compute, timeline.step), "\n");
    for (const auto &[axes, seconds] : rank->exposed)
      out += text("  ", axes, std::string(axes.size() < 9 ? 9 - axes.size() : 1, ' '), inSeconds(seconds, timeline.step), "\n");
    out += text("  idle     ", inSeconds(rank->idle, timeline.step), "\n");
  }
  out += text("memory     ", inMiB(double(forecast.arena)), " in the largest arena");
  if (forecast.processPeak > 0)
    out += text(", ", inMiB(forecast.processPeak), " at the peak of the process");
  return out + "\n";
}

// Counts the FLOPs of products and attention of a step on one rank of each stage, in the instructions of its table.
static support::OrderedJson flopsJson(const Stages &stages) {
  support::OrderedJson all = support::OrderedJson::array();
  for (const auto &stage : stages) {
    double products = 0, attention = 0;
    for (const auto &entry : stage->table)
      for (const auto &stream : stage->procedures[entry.procedure].byStream)
        for (uint32_t op : stream) {
          const auto &body = stage->instructionOf(op).body;
          if (const planfile::MatmulT *m = body.AsMatmul())
            products += 2.0 * (m->routing ? 1 : double(m->batch)) * double(m->m) * double(m->n) * double(m->k);
          else if (const planfile::LaunchT *launch = body.AsLaunch(); launch && launch->attention)
            attention += launch->flops;
        }
    all.push_back({{"stage", stage->stage}, {"products", products}, {"attention", attention}});
  }
  return all;
}

support::OrderedJson simulate::forecastJson(const Forecast &forecast) {
  support::OrderedJson ranks = support::OrderedJson::array();
  for (const RankTime &rank : forecast.timeline.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"stage", rank.stage},
                     {"compute_s", rank.compute},
                     {"exposed_s", rank.exposed},
                     {"idle_s", rank.idle}});
  return {{"step_time_s", forecast.timeline.step},
          {"bubble_fraction", forecast.bubble},
          {"workers", forecast.workers},
          {"threads", forecast.threads},
          {"arena_bytes", forecast.arena},
          {"process_peak", forecast.processPeak},
          {"flops", flopsJson(forecast.stages)},
          {"ranks", ranks}};
}

std::string simulate::nameOf(const planfile::ProgramT &program, const runtime::StageProgram &stage, uint32_t op) {
  return runtime::nameOf(program, stage, stage.ops[op], /*byLibrary=*/true);
}

support::Status simulate::writeTrace(const planfile::ProgramT &program, const Forecast &forecast, const std::string &file) {
  runtime::Trace trace(file, forecast.timeline.events);
  runtime::TraceSubject subject{program, forecast.stages, forecast.workers, forecast.threads,
                                [](uint32_t, uint32_t) { return true; }};
  return runtime::TraceWriter(std::move(subject), trace).write();
}
