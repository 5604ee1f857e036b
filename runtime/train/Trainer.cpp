#include "runtime/train/Trainer.h"

#include "lib/support/Counted.h"
#include "lib/support/Json.h"
#include "lib/support/OutputFile.h"
#include "runtime/data/Data.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/LossScale.h"
#include "runtime/train/NonFinite.h"
#include "runtime/train/Retry.h"
#include "runtime/session/Files.h"
#include "runtime/train/LearningRate.h"
#include "runtime/session/Results.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>
#include <new>
#include <sstream>

using namespace llmc;
using namespace llmc::runtime;
using planfile::OptimizerKind;
using planfile::ProgramT;
using planfile::StageT;
using support::error;
using support::ok;
using support::Status;
using support::text;
using Clock = std::chrono::steady_clock;

namespace {

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Holds the outputs of a step; NaN if the plan has no such output.
struct StepResult {
  double loss = NAN, gradNorm = NAN, tokens = NAN;
  double lr = 0, time = 0;
  double scale = 0;     // of the loss
  bool skipped = false; // a gradient was not finite, and nothing changed
  double load = 0;      // RouteRecorder::largestLoad()
  double dropped = 0;   // choices of experts beyond their capacity
  double lost = 0;      // rows that found no room at first: the step was taken back, and run again
  std::optional<double> evalLoss; // none: not evaluated after the step
};

// Returns whether a stage has something of this name in a list.
template <class List>
bool hasNamed(const ProgramT &program, List StageT::*list, std::string_view name) {
  return std::any_of(program.stages.begin(), program.stages.end(), [&](const auto &stage) {
    return std::any_of(((*stage).*list).begin(), ((*stage).*list).end(),
                       [&](const auto &entry) { return entry->name == name; });
  });
}

// Holds the state of one training run.
class Run {
public:
  Run(const ProgramT &program, const Kernels &kernels, const Options &options,
      const RunContext &context)
      : program(program), kernels(kernels), options(options), context(context), out(*context.out),
        progress(*context.progress) {}
  Status prepare();
  Status loop();
  // Writes all that was asked for after loop(), which returned `ran`.
  support::Result<Ended> finish(const Status &ran);

private:
  Status openOutputs(); // except those written as a whole at the end
  Status openEvaluation();
  Status compareRest();
  Status evaluateOnly();
  void announce();
  std::string optimizerNote() const;
  std::string nonfiniteNote() const;
  Status step(uint64_t index, StepResult &result);
  Status runAgain(StepResult &result, const Executor::CommitCheck &check);
  support::Result<Verdict> approve(const Executor &attempt, uint64_t index, StepResult &result) const;
  void writeScalars(const Executor &attempt, double lr);
  bool statesConsistent() const { return executor->statesConsistent() && retry->statesConsistent(); }
  Status evaluate(uint64_t done, StepResult &result);
  void log(uint64_t step, const StepResult &result, double tokens);
  void report(uint64_t index, const StepResult &result);
  std::string evalLine(uint64_t done, double loss) const;
  std::string save(bool early, Problems &problems);

  const ProgramT &program;
  const Kernels &kernels;
  const Options &options;
  const RunContext &context;
  std::ostream &out;
  support::Progress &progress;
  RouteRecorder routes{program, context.retry, !options.dump.empty()};
  std::unique_ptr<Executor> executor;
  std::optional<Retry> retry;
  Executor *counted = nullptr; // runs the attempt of the last step that counted
  uint64_t retried = 0;        // steps
  std::optional<Data> data; // none for --steps 0 without data
  std::optional<Evaluation> evaluation;
  std::optional<Weights> weights;
  std::unique_ptr<WeightsCheck> check;
  uint64_t steps = 0;
  LossScale scale{program.loss_scale};
  // Tells whether the plan has a scale, and whether it leaves the weights as they are where a
  // gradient is not finite.
  const bool scales = hasNamed(program, &StageT::host_scalars, "loss_scale"),
             skips = hasNamed(program, &StageT::outputs, "skipped"),
             mayOverflow = hasNamed(program, &StageT::outputs, "moe_lost");
  std::vector<double> losses;
  FirstGradients gradients;
  std::optional<support::FolderLock> saveLock;
  std::optional<support::LineFile> metrics;
  bool metricsBehind = false; // some lines could not be written yet
  bool toldNoLabels = false;  // the user knows of a step without labels
  bool stopped = false;
  Clock::time_point begin, lastLine;
  std::optional<support::Progress::Phase> training; // the progress line
};

Status Run::prepare() {
  bool wantsData = !options.data.empty() || !options.inputs.empty() || options.steps != 0;
  if (wantsData) {
    support::Result<Data> opened = Data::open(
        program, {options.data, options.inputs, options.shuffle, options.seed, options.tokenType});
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
  if (Status s = checkFiles(program, options, context, *weights); !s)
    return s;
  if (Status s = openOutputs(); !s)
    return s;
  support::Result<std::unique_ptr<Executor>> made = makeExecutor(
      program, kernels, options, steps, context.retry, routes.hook());
  if (!made)
    return made.takeError();
  executor = std::move(*made);
  retry.emplace(*executor, context, options);
  announce();
  support::Progress::Phase filling(progress, "filling weights");
  if (Status s = weights->fill(*executor, &filling); !s)
    return s;
  filling.end();
  support::Progress::Phase comparing(progress, "comparing weights with the model's");
  check = weights->check();
  comparing.expect(check->bytesLeft());
  return check->begin([&](uint64_t bytes) { comparing.reach(bytes); }, context.patience);
}

Status Run::openOutputs() {
  if (!options.save.empty()) {
    support::Result<support::FolderLock> taken = support::FolderLock::take(options.save);
    if (!taken)
      return error("--save: ", taken.message());
    saveLock.emplace(std::move(*taken));
  }
  if (!options.metrics.empty()) {
    support::Result<support::LineFile> opened =
        support::LineFile::open(options.metrics, options.force);
    if (!opened)
      return error("--metrics: ", opened.message());
    metrics.emplace(std::move(*opened));
  }
  return ok();
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
  note << (adam                                      ? "AdamW"
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

// Tells what a step does whose gradients are not finite, and the scale of the loss; empty where such
// a step simply ends the run.
std::string Run::nonfiniteNote() const {
  std::string note = skips ? text("not finite: the step changes nothing, and ", LossScale::kMostSkips,
                                  " in a row end the run")
                           : std::string();
  if (!scales)
    return note;
  note += text(note.empty() ? "" : "; ", "loss scale ", scale.value());
  return scale.isFixed() ? note
                         : text(note, ", doubled after ", LossScale::kCleanSteps,
                                " clean steps, halved where one is skipped");
}

void Run::announce() {
  announceModel(out, *executor);
  out << "batch      " << program.global_batch << " rows a step: " << program.micro_batches
      << " micro-batches of " << program.micro_batch << " a data-parallel rank, schedule "
      << program.schedule << ", recompute " << program.recompute << ", sequence-parallel "
      << program.sequence_parallel << ", dropout " << (program.dropout.empty() ? "0" : program.dropout) << "\n";
  announceMemory(out, *executor, *weights);
  out << "data       " << (data ? data->note() : "none")
      << (data && !data->checked() ? ", tokens still being checked" : "") << "\n";
  if (evaluation)
    out << "eval       " << evaluation->note() << "\n";
  out << "optimizer  " << optimizerNote() << "\n";
  if (std::string note = nonfiniteNote(); !note.empty())
    out << "gradients  " << note << "\n";
  out << "products   " << executor->libraryNote() << "\n";
  out << "steps      " << steps << (options.steps ? "" : " (once over the data)") << ", seed "
      << options.seed;
  if (options.steps && data)
    out << text(", ", std::setprecision(3),
                double(steps * program.global_batch) / double(data->rows()),
                " times over the data");
  out << std::endl;
}

void Run::writeScalars(const Executor &attempt, double lr) {
  double t = double(scale.taken() + 1);
  const std::pair<std::string_view, double> values[] = {
      {"lr", lr},
      {"beta1", options.beta1},
      {"beta2", options.beta2},
      {"eps", options.eps},
      {"weight_decay", options.weightDecay},
      {"clip", options.clip > 0 ? options.clip : double(std::numeric_limits<float>::max())},
      {"bias_correction1", 1.0 - std::pow(options.beta1, t)},
      {"bias_correction2", 1.0 - std::pow(options.beta2, t)},
      // The scale is that of the mean loss, as elsewhere; the plan's loss is a sum over tokens.
      {"loss_scale", scale.value() / (double(program.global_batch) *
                                      double(std::max<uint64_t>(1, program.model->sequence)))},
  };
  for (uint32_t rank = 0; rank < attempt.ranks(); ++rank)
    for (const auto &scalar : attempt.program().stages[attempt.stageOfRank(rank)]->host_scalars)
      for (const auto &[name, value] : values)
        if (scalar->name == name) {
          auto narrow = static_cast<float>(value);
          std::memcpy(attempt.arena(rank) + scalar->buffer->offset, &narrow, sizeof narrow);
        }
}

Status Run::step(uint64_t index, StepResult &result) {
  Clock::time_point start = Clock::now();
  if (Status s = data->load(index); !s)
    return error("step ", index + 1, ": ", s.message());
  result.lr = learningRate(options, index, steps);
  result.scale = scale.value();
  counted = executor.get();
  writeScalars(*counted, result.lr);
  routes.beginAttempt();
  Executor::CommitCheck check = [&] { return approve(*counted, index, result); };
  if (Status s = counted->runStep(data->batch(), check); !s)
    return error("step ", index + 1, ": ", s.message());
  if (counted->tookBack())
    if (Status s = runAgain(result, check); !s)
      return error("step ", index + 1, ": ", s.message());
  result.tokens = readOutput(*counted, "tokens").value_or(NAN);
  result.load = routes.largestLoad();
  result.dropped = readOutput(*counted, "moe_dropped").value_or(0);
  result.skipped = readOutput(*counted, "skipped").value_or(0) != 0;
  result.time = seconds(Clock::now() - start);
  return ok();
}

// Runs a step that was taken back by the plan that has room for all rows.
Status Run::runAgain(StepResult &result, const Executor::CommitCheck &check) {
  result.lost = readOutput(*executor, "moe_lost").value_or(0);
  support::Result<Executor *> second = retry->executor();
  if (!second)
    return error(checkRoom(*executor).message(), "; the weights stay as they were, since it cannot run again: ",
                 second.message());
  counted = *second;
  ++retried;
  writeScalars(*counted, result.lr);
  routes.beginAttempt();
  return counted->runStep(data->batch(), check);
}

// Takes back a step whose rows found no room, if it can be run again. Fails if the loss or gradient norm is not
// finite, unless the plan skips such steps itself. Runs before the weights change, so that those of the last
// good step can be saved.
support::Result<Verdict> Run::approve(const Executor &attempt, uint64_t index, StepResult &result) const {
  std::optional<double> loss = readOutput(attempt, "loss"), norm = readOutput(attempt, "grad_norm");
  result.loss = loss.value_or(NAN);
  result.gradNorm = norm.value_or(NAN);
  if (Status s = checkRoom(attempt); !s) {
    if (retry->exists() && &attempt == executor.get())
      return Verdict::TakeBack;
    return error(s.message(), options.interleaving ? "; --interleaving runs one plan, which has changed the weights by now"
                                                   : "; the weights stay as they were");
  }
  for (auto [what, output] : {std::pair("loss", "loss"), std::pair("gradient's norm", "grad_norm")})
    if (std::optional<double> value = nonFiniteOutput(attempt, output); !skips && value) {
      std::string which = describeNonFinite(attempt);
      return error("the ", what, " is ", *value, which.empty() ? "" : ": ", which,
                   index == 0 ? "; no step has changed the weights: look at those that were read, "
                                "and at this step's rows"
                              : "; lower --lr, raise --warmup, or look at this step's rows");
    }
  return Verdict::Commit;
}

// Evaluates after `done` steps if that is due, with the weights that they left.
Status Run::evaluate(uint64_t done, StepResult &result) {
  if (!evaluation || !evaluation->due(done, steps))
    return ok();
  support::Result<std::optional<double>> loss = evaluation->run(*executor, *retry, progress, context.stop);
  if (!loss)
    return error("step ", done, ": ", loss.message());
  result.evalLoss = *loss;
  return ok();
}

// Appends a line to --metrics. A full disk does not end the training: the lines are buffered
// until there is room.
void Run::log(uint64_t step, const StepResult &r, double tokens) {
  if (!metrics)
    return;
  support::OrderedJson line = {{"step", step}};
  if (step > 0) {
    auto put = [&](const char *key, double value) { // JSON has no numbers that are not finite
      line[key] = nullptr;
      if (std::isfinite(value))
        line[key] = value;
    };
    put("loss", r.loss);
    put("grad_norm", r.gradNorm);
    line["lr"] = r.lr;
    line["tokens"] = static_cast<uint64_t>(tokens);
    line["step_time_s"] = r.time;
    line["tokens_per_s"] = tokens / r.time;
    if (program.predicted_step_s > 0)
      line["predicted_step_s"] = program.predicted_step_s;
    if (program.peak_flops > 0)
      line["mfu"] = program.model_flops / r.time / program.peak_flops;
  }
  if (step > 0 && scales)
    line["loss_scale"] = r.scale;
  if (step > 0 && skips)
    line["skipped"] = r.skipped ? 1 : 0;
  if (step > 0 && mayOverflow)
    line["moe_overflow"] = r.lost > 0 ? 1 : 0;
  if (step > 0 && r.load > 0) {
    line["moe_load_max"] = r.load;
    line["moe_dropped"] = program.moe_choices > 0 ? r.dropped / double(program.moe_choices) : 0;
  }
  if (r.evalLoss)
    line["eval_loss"] = *r.evalLoss;
  Status written = metrics->append(line.dump());
  if (!written && !metricsBehind)
    progress.warn(
        text("metrics    ", written.message(),
             step < steps ? "; training goes on, later lines bring these" : "; it is tried again at the end"));
  metricsBehind = !written;
}

void Run::report(uint64_t index, const StepResult &r) {
  double tokens = std::isnan(r.tokens)
                      ? double(program.global_batch) * double(program.model->sequence)
                      : r.tokens;
  log(index + 1, r, tokens);
  if (r.skipped)
    progress.print(text("skipped    step ", index + 1, ": a gradient is not finite, the weights stay",
                        scales ? text("; loss scale ", r.scale) : std::string()));
  if (r.lost > 0 && retried == 1)
    progress.print(text("retried    step ", index + 1, ": ", r.lost, " rows found no room at the ranks of their "
                        "experts (--moe-budget ", program.moe_budget, "), so it was taken back and run with room for all"));
  if (tokens == 0 && !std::exchange(toldNoLabels, true))
    progress.print(text("labels     none of step ", index + 1,
                        " counts, all are ignored: nothing is learned from such a step"));
  Clock::time_point now = Clock::now();
  bool last = index + 1 == steps;
  char line[160];
  double left = seconds(now - begin) / double(index + 1) * double(steps - index - 1);
  std::snprintf(line, sizeof line,
                "step %llu/%llu  loss %.5f  norm %.4g  lr %.3g  %.0f tokens/s  left %s",
                static_cast<unsigned long long>(index + 1), static_cast<unsigned long long>(steps),
                r.loss, r.gradNorm, r.lr, tokens / r.time, support::durationText(left).c_str());
  // Prints the first ten steps, then about one a second; on a terminal the progress line
  // shows the others.
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
  std::snprintf(line, sizeof line, "eval %llu/%llu  loss %.5f",
                static_cast<unsigned long long>(done), static_cast<unsigned long long>(steps),
                loss);
  return line;
}

Status Run::loop() {
  begin = lastLine = Clock::now();
  if (steps == 0)
    return evaluateOnly();
  training.emplace(progress, "training", steps);
  for (uint64_t index = 0; index < steps && check->poll(); ++index) {
    if ((stopped = context.stopped())) {
      progress.print(text("stopped after step ", index, " of ", steps));
      break;
    }
    StepResult result;
    if (Status s = step(index, result); !s)
      return s;
    losses.push_back(result.loss);
    if (!options.dump.empty())
      routes.keepStep();
    context.begin();
    writeDueTrace(out, *executor);
    // Captures the gradients before an evaluation overwrites the accumulators.
    if (index == 0 && !options.dump.empty())
      if (Status s = gradients.capture(*counted); !s)
        return error("--dump: ", s.message());
    if (index == 0 && !options.dump.empty() && result.skipped)
      progress.print("dump       has the gradients of a skipped step, as they are");
    if (Status s = evaluate(index + 1, result); !s)
      return s;
    report(index, result);
    if (Status s = scale.record(index + 1, result.skipped, result.gradNorm); !s)
      return error("step ", index + 1, ": ", s.message());
  }
  return ok();
}

// Evaluates the initial weights, for --steps 0.
Status Run::evaluateOnly() {
  StepResult result;
  Status status = evaluate(0, result);
  if (result.evalLoss) {
    log(0, result, 0);
    progress.print(evalLine(0, *result.evalLoss));
  }
  return status;
}

// Saves the weights unless there is nothing to save; returns a note that says where those of
// the last step are.
std::string Run::save(bool early, Problems &problems) {
  const uint64_t last = losses.size();
  if (early && last == 0)
    return "no step had ended, so nothing was written";
  if (!statesConsistent())
    return text("it failed while it changed the weights, so those of step ", last, " are lost");
  if (options.save.empty())
    return text("the weights of step ", last, " are lost, --save DIR would have kept them");
  support::Progress::Phase phase(progress, "saving " + options.save);
  Status saved = saveModel(options.save, *executor, phase);
  phase.end();
  problems.add(saved, "--save: ");
  if (!saved)
    return text("the weights of step ", last, " could not be saved");
  out << "saved      " << options.save << "/model.safetensors"
      << (early ? text(", the weights of step ", last) : "") << std::endl;
  return text("the weights of step ", last, " are in '", options.save, "'");
}

// Compares the rest of the weights with the model's.
Status Run::compareRest() {
  support::Progress::Phase comparing(progress, "comparing weights with the model's",
                                     check->bytesLeft());
  return check->finish([&](uint64_t bytes) { comparing.reach(bytes); });
}

support::Result<Ended> Run::finish(const Status &ran) {
  training.reset();
  const bool early = !ran || stopped;
  Problems problems, later;
  if (uint64_t left = check->bytesLeft())
    out << "weights    " << support::groupDigits(left)
        << " bytes are yet to be compared with the model's" << std::endl;
  const Status same = compareRest();
  if (!same)
    problems.add(error(same.message(), "; nothing was saved, the ", losses.size(),
                       " steps trained other weights"));
  if (scale.skipped() > 0)
    out << "skipped    " << scale.skipped() << " of " << support::counted(losses.size(), "step")
        << ": a gradient was not finite" << std::endl;
  if (retried > 0)
    out << "retried    " << retried << " of " << support::counted(losses.size(), "step")
        << ": rows found no room at the ranks of their experts; --moe-budget " << program.moe_budget_most
        << " has room for all" << std::endl;
  std::string weightsNote = same ? save(early, later) : "no weights were saved";
  if (!ran)
    problems.add(error(ran.message(), "; ", weightsNote));
  else if (same && stopped && options.save.empty())
    out << "saved      nothing: " << weightsNote << std::endl;
  problems.add(later.status());
  if (metrics)
    problems.add(metrics->flush(), "--metrics: ");
  if (same && !options.dump.empty() && (!early || !losses.empty()) &&
      statesConsistent()) {
    support::Progress::Phase phase(progress, "writing " + options.dump);
    Status dumped = writeDump(options.dump, *executor, losses, gradients, routes, phase);
    phase.end();
    problems.add(dumped, "--dump: ");
    if (dumped)
      out << "dump       " << options.dump << "\n";
  }
  // Counts are those of the first plan, in the steps that it ran.
  problems.add(finishRun(out, *executor, options, losses.size() - std::min<uint64_t>(retried, losses.size()), bool(ran)));
  out.flush();
  if (Status s = problems.status(); !s)
    return s.takeError();
  return stopped ? Ended::Stopped : Ended::Whole;
}

} // namespace

support::Result<Ended> runtime::train(const ProgramT &program, const Kernels &kernels,
                                      const Options &options, const RunContext &context) {
  Console console(context, options);
  Run run(program, kernels, options, console.context());
  if (Status s = run.prepare(); !s)
    return s.takeError();
  Status ran;
  try {
    ran = run.loop();
  } catch (const std::bad_alloc &) { // the weights can still be saved
    ran = error("out of memory");
  }
  return run.finish(ran);
}
