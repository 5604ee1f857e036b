#include "runtime/Trainer.h"

#include "lib/support/Json.h"
#include "runtime/Data.h"
#include "runtime/Evaluation.h"
#include "runtime/LearningRate.h"
#include "runtime/Results.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <limits>
#include <sstream>

using namespace llmc;
using namespace llmc::runtime;
using planfile::OptimizerKind;
using planfile::ProgramT;
using support::error;
using support::ok;
using support::Status;
using support::text;
using Clock = std::chrono::steady_clock;

namespace {

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// What the host reads after a step. NaN: the plan has no such output.
struct StepResult {
  double loss = NAN, gradNorm = NAN, tokens = NAN;
  double lr = 0, time = 0;
  std::optional<double> evalLoss; // if it was evaluated after the step
};

// One training run.
class Run {
public:
  Run(const ProgramT &program, const Kernels &kernels, const Options &options,
      const RunContext &context)
      : program(program), kernels(kernels), options(options), context(context),
        out(*context.out), progress(*context.progress) {}
  Status prepare();
  Status loop();
  Status finish();

private:
  Status openEvaluation();
  Status evaluateOnly();
  void announce();
  std::string optimizerNote() const;
  Status step(uint64_t index, StepResult &result);
  void writeScalars(uint64_t index, double lr);
  Status evaluate(uint64_t done, StepResult &result);
  void log(uint64_t step, const StepResult &result, double tokens);
  void report(uint64_t index, const StepResult &result);
  std::string evalLine(uint64_t done, double loss) const;

  const ProgramT &program;
  const Kernels &kernels;
  const Options &options;
  const RunContext &context;
  std::ostream &out;
  support::Progress &progress;
  std::unique_ptr<Executor> executor;
  std::optional<Data> data; // none for --steps 0 without data
  std::optional<Evaluation> evaluation;
  std::optional<Weights> weights;
  uint64_t steps = 0;
  std::vector<double> losses;
  FirstGradients gradients;
  std::ofstream metrics;
  Clock::time_point begin, lastLine;
  std::optional<support::Progress::Phase> training; // the living line
};

Status Run::prepare() {
  bool wantsData = !options.data.empty() || !options.inputs.empty() || options.steps != 0;
  if (wantsData) {
    support::Result<Data> opened =
        Data::open(program, {options.data, options.inputs, options.shuffle, options.seed,
                             options.tokenType});
    if (!opened)
      return opened.takeError();
    data.emplace(std::move(*opened));
  }
  steps = options.steps ? *options.steps : data->stepsOfEpoch();
  if (Status s = checkSchedule(options, steps); !s)
    return s;
  if (data)
    if (Status s = data->beginCheck(progress, kCheckSeconds); !s)
      return s;
  if (Status s = openEvaluation(); !s)
    return s;
  support::Result<Weights> found = openWeights(program, options, context);
  if (!found)
    return found.takeError();
  weights.emplace(std::move(*found));
  if (Status s = checkResultsWritable(options); !s)
    return s;
  if (!options.metrics.empty()) {
    metrics.open(options.metrics, std::ios::trunc);
    if (!metrics)
      return error("cannot write '", options.metrics, "': ", std::strerror(errno));
  }
  support::Result<std::unique_ptr<Executor>> made = makeExecutor(program, kernels, options, steps);
  if (!made)
    return made.takeError();
  executor = std::move(*made);
  announce();
  support::Progress::Phase filling(progress, "filling weights");
  return weights->fill(*executor);
}

Status Run::openEvaluation() {
  if (options.evalData.empty())
    return ok();
  support::Result<Evaluation> opened = Evaluation::open(program, options, progress);
  if (!opened)
    return opened.takeError();
  evaluation.emplace(std::move(*opened));
  return ok();
}

std::string Run::optimizerNote() const {
  std::ostringstream note;
  bool adam = program.optimizer == OptimizerKind::AdamW;
  note << (adam                                           ? "AdamW"
           : program.optimizer == OptimizerKind::Sgd ? "SGD"
                                                          : "none")
       << ", " << scheduleNote(options, steps);
  if (adam)
    note << ", betas " << options.beta1 << " " << options.beta2 << ", eps " << options.eps;
  note << ", weight decay " << options.weightDecay << ", clip ";
  if (options.clip > 0)
    note << options.clip;
  else
    note << "off";
  return note.str();
}

void Run::announce() {
  announceModel(out, *executor);
  out << "batch      " << program.global_batch << " rows a step: " << program.micro_batches
      << " micro-batches of " << program.micro_batch << " a data-parallel rank, schedule "
      << program.schedule << "\n";
  announceMemory(out, *executor, *weights);
  out << "data       " << (data ? data->note() : "none")
      << (data && !data->checked() ? ", tokens still being checked" : "") << "\n";
  if (evaluation)
    out << "eval       " << evaluation->note() << "\n";
  out << "optimizer  " << optimizerNote() << "\n";
  out << "products   " << executor->libraryNote() << "\n";
  out << "steps      " << steps << (options.steps ? "" : " (once over the data)") << ", seed "
      << options.seed;
  if (options.steps && data)
    out << text(", ", std::setprecision(3), double(steps * program.global_batch) / double(data->rows()),
                " times over the data");
  out << std::endl;
}

void Run::writeScalars(uint64_t index, double lr) {
  double t = double(index + 1);
  const std::pair<std::string_view, double> values[] = {
      {"lr", lr},
      {"beta1", options.beta1},
      {"beta2", options.beta2},
      {"eps", options.eps},
      {"weight_decay", options.weightDecay},
      {"clip", options.clip > 0 ? options.clip : double(std::numeric_limits<float>::max())},
      {"bias_correction1", 1.0 - std::pow(options.beta1, t)},
      {"bias_correction2", 1.0 - std::pow(options.beta2, t)},
  };
  for (uint32_t rank = 0; rank < executor->ranks(); ++rank)
    for (const auto &scalar : program.stages[executor->stageOfRank(rank)]->host_scalars)
      for (const auto &[name, value] : values)
        if (scalar->name == name) {
          auto narrow = static_cast<float>(value);
          std::memcpy(executor->arena(rank) + scalar->buffer->offset, &narrow, sizeof narrow);
        }
}

Status Run::step(uint64_t index, StepResult &result) {
  Clock::time_point start = Clock::now();
  if (Status s = data->load(index); !s)
    return error("step ", index + 1, ": ", s.message());
  result.lr = learningRate(options, index, steps);
  writeScalars(index, result.lr);
  if (Status s = executor->runStep(data->batch()); !s)
    return error("step ", index + 1, ": ", s.message());
  result.loss = readOutput(*executor, "loss");
  result.gradNorm = readOutput(*executor, "grad_norm");
  result.tokens = readOutput(*executor, "tokens");
  result.time = seconds(Clock::now() - start);
  if (!std::isfinite(result.loss))
    return error("step ", index + 1, ": the loss is ", result.loss,
                 "; lower --lr, raise --warmup, or look at this step's rows");
  if (index == 0 && !options.dump.empty())
    return gradients.capture(*executor);
  return ok();
}

// After a step, with the weights that it left.
Status Run::evaluate(uint64_t done, StepResult &result) {
  if (!evaluation || !evaluation->due(done, steps))
    return ok();
  support::Result<std::optional<double>> loss =
      evaluation->run(*executor, progress, context.stop);
  if (!loss)
    return error("step ", done, ": ", loss.message());
  result.evalLoss = *loss;
  return ok();
}

void Run::log(uint64_t step, const StepResult &r, double tokens) {
  if (!metrics.is_open())
    return;
  support::OrderedJson line = {{"step", step}};
  if (step > 0) {
    line["loss"] = r.loss;
    line["grad_norm"] = nullptr;
    if (!std::isnan(r.gradNorm))
      line["grad_norm"] = r.gradNorm;
    line["lr"] = r.lr;
    line["tokens"] = static_cast<uint64_t>(tokens);
    line["step_time_s"] = r.time;
    line["tokens_per_s"] = tokens / r.time;
  }
  if (r.evalLoss)
    line["eval_loss"] = *r.evalLoss;
  metrics << line.dump() << std::endl;
}

void Run::report(uint64_t index, const StepResult &r) {
  double tokens = std::isnan(r.tokens)
                      ? double(program.global_batch) * double(program.model->sequence)
                      : r.tokens;
  log(index + 1, r, tokens);
  Clock::time_point now = Clock::now();
  bool last = index + 1 == steps;
  char line[160];
  double left = seconds(now - begin) / double(index + 1) * double(steps - index - 1);
  std::snprintf(line, sizeof line, "step %llu/%llu  loss %.5f  norm %.4g  lr %.3g  %.0f tokens/s  left %s",
                static_cast<unsigned long long>(index + 1),
                static_cast<unsigned long long>(steps), r.loss, r.gradNorm, r.lr,
                tokens / r.time, support::durationText(left).c_str());
  // A line a step while there are few, then about one a second; on a terminal the living
  // line tells those.
  constexpr uint64_t kEach = 10;
  bool due = !context.terminal && seconds(now - lastLine) >= 1.0;
  bool stays = last || index < kEach || due || r.evalLoss;
  training->show(stays ? "" : line);
  if (stays) {
    lastLine = now;
    progress.print(line);
  }
  if (r.evalLoss)
    progress.print(evalLine(index + 1, *r.evalLoss));
}

std::string Run::evalLine(uint64_t done, double loss) const {
  char line[96];
  std::snprintf(line, sizeof line, "eval %llu/%llu  loss %.5f", static_cast<unsigned long long>(done),
                static_cast<unsigned long long>(steps), loss);
  return line;
}

Status Run::loop() {
  begin = lastLine = Clock::now();
  if (steps == 0)
    return evaluateOnly();
  training.emplace(progress, "training", steps);
  for (uint64_t index = 0; index < steps; ++index) {
    if (context.stop && *context.stop) {
      progress.print(text("stopped after step ", index, " of ", steps));
      break;
    }
    StepResult result;
    if (Status s = keepTrace(*executor, step(index, result)); !s)
      return s;
    losses.push_back(result.loss);
    if (Status s = evaluate(index + 1, result); !s)
      return s;
    report(index, result);
    if (metrics.is_open() && !metrics)
      return error("cannot write '", options.metrics, "'");
  }
  return ok();
}

// --steps 0: the weights as they came.
Status Run::evaluateOnly() {
  StepResult result;
  Status status = evaluate(0, result);
  if (result.evalLoss) {
    log(0, result, 0);
    progress.print(evalLine(0, *result.evalLoss));
  }
  return status;
}

Status Run::finish() {
  training.reset();
  if (!options.dump.empty()) {
    support::Progress::Phase phase(progress, "writing " + options.dump);
    if (Status s = writeDump(options.dump, *executor, losses, gradients); !s)
      return s;
    phase.end();
    out << "dump       " << options.dump << "\n";
  }
  if (!options.save.empty()) {
    support::Progress::Phase phase(progress, "saving " + options.save);
    if (Status s = saveModel(options.save, *executor); !s)
      return s;
    phase.end();
    out << "saved      " << options.save << "/model.safetensors\n";
  }
  Status status = finishRun(out, *executor, options, losses.size());
  out.flush();
  return status;
}

} // namespace

Status runtime::train(const ProgramT &program, const Kernels &kernels, const Options &options,
                      const RunContext &context) {
  Console console(context, options);
  Run run(program, kernels, options, console.context());
  if (Status s = run.prepare(); !s)
    return s;
  if (Status s = run.loop(); !s)
    return s;
  return run.finish();
}
