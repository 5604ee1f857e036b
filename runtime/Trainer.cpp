#include "runtime/Trainer.h"

#include "lib/support/Json.h"
#include "runtime/Data.h"
#include "runtime/Results.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
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

std::string duration(double s) {
  char buffer[32];
  auto whole = static_cast<long>(s + 0.5);
  if (whole >= 3600)
    std::snprintf(buffer, sizeof buffer, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  else
    std::snprintf(buffer, sizeof buffer, "%ld:%02ld", whole / 60, whole % 60);
  return buffer;
}

// What the host reads after a step. NaN: the plan has no such output.
struct StepResult {
  double loss = NAN, gradNorm = NAN, tokens = NAN;
  double lr = 0, time = 0;
};

// One training run.
class Run {
public:
  Run(const ProgramT &program, const Kernels &kernels, const Options &options,
      const RunContext &context)
      : program(program), kernels(kernels), options(options), context(context),
        out(*context.out) {}
  Status prepare();
  Status loop();
  Status finish();

private:
  void announce();
  std::string optimizerNote() const;
  Status step(uint64_t index, StepResult &result);
  void writeScalars(uint64_t index, double lr);
  double readOutput(std::string_view name) const;
  void report(uint64_t index, const StepResult &result);

  const ProgramT &program;
  const Kernels &kernels;
  const Options &options;
  const RunContext &context;
  std::ostream &out;
  std::unique_ptr<Executor> executor;
  std::optional<Data> data; // none for --steps 0 without data
  std::optional<Weights> weights;
  uint64_t steps = 0;
  std::vector<double> losses;
  FirstGradients gradients;
  std::ofstream metrics;
  Clock::time_point begin, lastLine;
};

Status Run::prepare() {
  bool wantsData = !options.data.empty() || !options.inputs.empty() || options.steps != 0;
  if (wantsData) {
    support::Result<Data> opened =
        Data::open(program, {options.data, options.inputs, options.shuffle, options.seed});
    if (!opened)
      return opened.takeError();
    data.emplace(std::move(*opened));
  }
  steps = options.steps ? *options.steps : data->stepsOfEpoch();
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
  return weights->fill(*executor);
}

std::string Run::optimizerNote() const {
  std::ostringstream note;
  bool adam = program.optimizer == OptimizerKind::AdamW;
  note << (adam                                           ? "AdamW"
           : program.optimizer == OptimizerKind::Sgd ? "SGD"
                                                          : "none")
       << ", lr " << options.lr << (options.cosine ? " cosine" : " constant");
  if (options.cosine)
    note << " to " << options.minLr;
  note << ", warm-up " << options.warmup;
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
  out << "data       " << (data ? data->note() : "none") << "\n";
  out << "optimizer  " << optimizerNote() << "\n";
  out << "products   " << executor->libraryNote() << "\n";
  out << "steps      " << steps << (options.steps ? "" : " (once over the data)") << ", seed "
      << options.seed << std::endl;
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

double Run::readOutput(std::string_view name) const {
  // Where several ranks have it they have the same: the last stage's is first-hand.
  for (size_t stage = program.stages.size(); stage-- > 0;)
    for (const auto &output : program.stages[stage]->outputs)
      if (output->name == name)
        for (uint32_t rank = 0; rank < executor->ranks(); ++rank)
          if (executor->stageOfRank(rank) == stage) {
            float value;
            std::memcpy(&value, executor->arena(rank) + output->buffer->offset, sizeof value);
            return value;
          }
  return NAN;
}

Status Run::step(uint64_t index, StepResult &result) {
  Clock::time_point start = Clock::now();
  if (Status s = data->load(index); !s)
    return error("step ", index + 1, ": ", s.message());
  result.lr = learningRate(options, index, steps);
  writeScalars(index, result.lr);
  if (Status s = executor->runStep(data->batch()); !s)
    return error("step ", index + 1, ": ", s.message());
  result.loss = readOutput("loss");
  result.gradNorm = readOutput("grad_norm");
  result.tokens = readOutput("tokens");
  result.time = seconds(Clock::now() - start);
  if (!std::isfinite(result.loss))
    return error("step ", index + 1, ": the loss is ", result.loss,
                 "; lower --lr, raise --warmup, or look at this step's rows");
  if (index == 0 && !options.dump.empty())
    return gradients.capture(*executor);
  return ok();
}

void Run::report(uint64_t index, const StepResult &r) {
  double tokens = std::isnan(r.tokens)
                      ? double(program.global_batch) * double(program.model->sequence)
                      : r.tokens;
  if (metrics.is_open()) {
    support::OrderedJson line = {{"step", index + 1},
                                 {"loss", r.loss},
                                 {"grad_norm", nullptr},
                                 {"lr", r.lr},
                                 {"tokens", static_cast<uint64_t>(tokens)},
                                 {"step_time_s", r.time},
                                 {"tokens_per_s", tokens / r.time}};
    if (!std::isnan(r.gradNorm))
      line["grad_norm"] = r.gradNorm;
    metrics << line.dump() << std::endl;
  }
  Clock::time_point now = Clock::now();
  bool last = index + 1 == steps;
  // A line a step while there are few, then about one a second.
  constexpr uint64_t kEach = 10;
  if (!last && index >= kEach && seconds(now - lastLine) < 1.0)
    return;
  lastLine = now;
  char line[160];
  double left = seconds(now - begin) / double(index + 1) * double(steps - index - 1);
  std::snprintf(line, sizeof line, "step %llu/%llu  loss %.5f  norm %.4g  lr %.3g  %.0f tokens/s  left %s",
                static_cast<unsigned long long>(index + 1),
                static_cast<unsigned long long>(steps), r.loss, r.gradNorm, r.lr,
                tokens / r.time, duration(left).c_str());
  if (context.terminal && !last && index >= kEach)
    out << "\r\033[K" << line << std::flush;
  else
    out << (context.terminal && index > kEach ? "\r\033[K" : "") << line << std::endl;
}

Status Run::loop() {
  begin = lastLine = Clock::now();
  for (uint64_t index = 0; index < steps; ++index) {
    if (context.stop && *context.stop) {
      out << (context.terminal ? "\n" : "") << "stopped after step " << index << " of " << steps << std::endl;
      break;
    }
    StepResult result;
    if (Status s = keepTrace(*executor, step(index, result)); !s)
      return s;
    losses.push_back(result.loss);
    report(index, result);
    if (metrics.is_open() && !metrics)
      return error("cannot write '", options.metrics, "'");
  }
  return ok();
}

Status Run::finish() {
  if (!options.dump.empty()) {
    if (Status s = writeDump(options.dump, *executor, losses, gradients); !s)
      return s;
    out << "dump       " << options.dump << "\n";
  }
  if (!options.save.empty()) {
    if (Status s = saveModel(options.save, *executor); !s)
      return s;
    out << "saved      " << options.save << "/model.safetensors\n";
  }
  Status status = finishRun(out, *executor, options, losses.size());
  out.flush();
  return status;
}

} // namespace

Status runtime::train(const ProgramT &program, const Kernels &kernels, const Options &options,
                      const RunContext &context) {
  Run run(program, kernels, options, context);
  if (Status s = run.prepare(); !s)
    return s;
  if (Status s = run.loop(); !s)
    return s;
  return run.finish();
}
