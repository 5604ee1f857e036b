#include "runtime/session/Session.h"

#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Precision.h"
#include "lib/planfile/SharedStates.h"
#include "lib/support/Counted.h"
#include "runtime/session/Results.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

using namespace llmc;
using namespace llmc::runtime;
using planfile::ProgramT;
using support::error;

Console::Console(const RunContext &context, const Options &options)
    : progress_(*context.out, context.terminal, options.verbosity), lines_(progress_),
      out_(&lines_), context_(context) {
  context_.out = &out_;
  context_.progress = &progress_;
}

Console::Lines::~Lines() {
  if (!line.empty())
    progress.print(line);
}

std::streambuf::int_type Console::Lines::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof()))
    return traits_type::not_eof(c);
  if (c == '\n')
    progress.print(std::exchange(line, {}));
  else
    line += traits_type::to_char_type(c);
  return c;
}

support::Result<Weights> runtime::openWeights(const ProgramT &program, const Options &options,
                                              const RunContext &context) {
  return Weights::open(program, {options.weights, options.seed, context.folder});
}

namespace {

// Returns the trace options. The default is steps 2 to 4, because the first one runs with cold
// memory; where a run makes no step the range is empty, 1 to 0.
support::Result<std::optional<TraceOptions>> traceOf(const Options &options, uint64_t runs) {
  std::optional<TraceOptions> trace;
  if (options.trace.empty())
    return options.traceSteps ? error("--trace-steps is for --trace FILE")
                              : support::Result<std::optional<TraceOptions>>(trace);
  if (options.interleaving)
    return error("--trace does not go with --interleaving");
  auto [first, last] = options.traceSteps.value_or(
      std::pair(std::clamp<uint64_t>(runs, 1, 2), std::min<uint64_t>(runs, 4)));
  if (options.traceSteps && first > runs)
    return error("--trace-steps ", first, ":", last, ": there are only ", runs, " steps");
  return trace = {options.trace, first, std::min(last, runs)};
}

ExecutorOptions executorOptions(const Options &options) {
  ExecutorOptions how;
  how.workers = options.workers;
  how.threadsPerRank = options.threads;
  how.pin = options.pin && !std::getenv("LLMC_NO_PIN");
  how.useLibrary = options.library;
  how.share = options.share;
  how.isolate = options.isolateArenas;
  how.profile = options.profile || !options.profileRows.empty();
  how.interleaving = options.interleaving;
  return how;
}

} // namespace

support::Result<std::unique_ptr<Executor>> runtime::makeExecutor(const ProgramT &program,
                                                                 const Kernels &kernels,
                                                                 const Options &options,
                                                                 uint64_t runs,
                                                                 const ProgramT *retry,
                                                                 RoutesHook routes) {
  support::Result<std::optional<TraceOptions>> trace = traceOf(options, runs);
  if (!trace)
    return trace.takeError();
  ExecutorOptions how = executorOptions(options);
  how.trace = *trace;
  how.retry = retry;
  how.routes = std::move(routes);
  return Executor::create(program, kernels, how);
}

support::Result<std::unique_ptr<Executor>> runtime::makeRetry(const Executor &first, const RunContext &context,
                                                              const Options &options) {
  return first.makeRetry(*context.retry, *context.retryKernels, executorOptions(options));
}

support::Status runtime::finishRun(std::ostream &out, Executor &executor, const Options &options,
                                   uint64_t runs, bool whole) {
  Problems problems;
  if (whole && !options.countCollectives.empty())
    problems.add(writeCounts(options.countCollectives, executor, runs), "--count-collectives: ");
  problems.add(executor.writeTrace(/*now=*/true), "--trace: ");
  if (!executor.traceNote().empty())
    out << "trace      " << executor.traceNote() << "\n";
  if (options.profile)
    executor.printProfile(out);
  if (!options.profileRows.empty() && executor.profile())
    problems.add(writeProfileRows(options.profileRows, executor), "--profile-rows: ");
  return problems.status();
}

void runtime::writeDueTrace(std::ostream &out, Executor &executor) {
  if (support::Status s = executor.writeTrace(/*now=*/false); !s)
    out << "trace      " << s.message() << "; it is tried again at the end" << std::endl;
}

std::optional<double> runtime::readOutput(const Executor &executor, std::string_view name) {
  // If several stages have the output they hold equal values: read that of the last one.
  const ProgramT &program = executor.program();
  for (size_t stage = program.stages.size(); stage-- > 0;)
    for (const auto &output : program.stages[stage]->outputs)
      if (output->name == name)
        for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
          if (executor.stageOfRank(rank) == stage) {
            float value;
            std::memcpy(&value, executor.arena(rank) + output->buffer->offset, sizeof value);
            return std::isnan(value) ? NAN : value; // the sign of one would be printed
          }
  return std::nullopt;
}

support::Status runtime::checkRoom(const Executor &executor) {
  std::optional<double> lost = readOutput(executor, "moe_lost");
  if (!lost || *lost == 0)
    return support::ok();
  const ProgramT &program = executor.program();
  return support::error(*lost, " rows found no room at the ranks of their experts, which have it for ",
                        program.moe_budget, " times the average (--moe-budget); compile with a larger one: ",
                        program.moe_budget_most, " has room for all");
}

void runtime::announceModel(std::ostream &out, const Executor &executor) {
  const ProgramT &program = executor.program();
  const planfile::ModelInfoT &model = *program.model;
  out << "model      " << (model.name.empty() ? model.source_path : model.name) << ", "
      << support::groupDigits(model.parameters) << " parameters, "
      << support::counted(model.layers, "layer");
  if (model.sequence > 0)
    out << ", sequence " << model.sequence;
  if (model.vocabulary > 0)
    out << ", vocabulary " << model.vocabulary;
  out << "\nmesh       " << planfile::meshText(*program.mesh, "=", " ") << ": "
      << support::counted(executor.ranks(), "rank") << " on "
      << support::counted(executor.workers(), "thread") << ", each with "
      << executor.threadsPerRank() << " for its kernels"
      << (executor.pinned() ? ", pinned to cores" : "") << "\n";
  out << "precision  " << planfile::precisionNote(program) << "\n";
  if (std::string note = planfile::statesNote(program); !note.empty())
    out << "states     " << note << "\n";
  if (const std::string &note = executor.kernels().note(); !note.empty())
    out << "kernels    " << note << "\n";
}

void runtime::announceMemory(std::ostream &out, const Executor &executor, const Weights &weights) {
  uint64_t arenas = 0;
  for (const auto &stage : executor.program().stages)
    arenas = std::max(arenas, stage->arena_bytes);
  out << "memory     " << support::groupDigits(arenas) << " bytes in the largest arena, "
      << support::groupDigits(availableMemory()) << " free\n";
  if (const auto &shared = executor.shared(); shared && shared->tensors() > 0)
    out << "           " << support::groupDigits(shared->bytes()) << " bytes of "
        << shared->tensors()
        << " tensors that no instruction writes lie there once for all ranks, not "
        << support::groupDigits(shared->bytesInArenas()) << " in arenas\n";
  out << "weights    " << weights.note() << "\n";
  if (const std::string &note = executor.program().model->weights_note; !note.empty())
    out << "           " << note << "\n";
}
