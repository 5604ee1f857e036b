// Implements llmc compile: model -> plan + kernels -> one executable.
#include "tools/llmc/Choose.h"
#include "tools/llmc/Commands.h"
#include "tools/llmc/Diagnostics.h"
#include "tools/llmc/Files.h"
#include "tools/llmc/Flags.h"
#include "tools/llmc/RetryPlan.h"

#include "lib/pipeline/Dump.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/pipeline/StoredPrecision.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Payload.h"
#include "lib/planfile/Precision.h"
#include "lib/planfile/Program.h"
#include "lib/planfile/Retry.h"
#include "lib/planfile/SharedStates.h"
#include "lib/predict/Predict.h"
#include "lib/predict/PriceOptions.h"
#include "lib/report/Report.h"
#include "lib/search/Flags.h"
#include "lib/simulate/Forecast.h"
#include "lib/support/Counted.h"
#include "lib/support/OutputFile.h"
#include "lib/support/Progress.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/cuda/CudaProgram.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>

namespace llmc {
using namespace mlir;
using support::counted;
using support::text;
namespace {

int fail(const std::string &message) {
  llvm::errs() << "llmc: error: " << message << "\n";
  return 1;
}

// Returns why the output cannot be written, or an empty string, so that a long compilation
// does not fail at its end.
std::string checkWritable(const CommandLine &line) {
  namespace fs = std::filesystem;
  std::string output = line.options.output;
  fs::path path(output), folder = path.parent_path().empty() ? "." : path.parent_path();
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return output + ": cannot be written: " +
           (fs::exists(folder, error) ? folder.string() + " is no folder"
                                      : "folder " + folder.string() + " does not exist");
  if (fs::is_directory(path, error))
    return output + ": cannot be written: it is a folder; name a file with -o";
  support::Status status = support::checkWritable(output);
  return status ? "" : status.message();
}

std::string humanBytes(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = bytes;
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

// Returns whether a training has the output that tells whether to go on. Only edited IR lacks it.
bool hasLoss(const planfile::ProgramT &program) {
  return program.mode != planfile::Mode::Train || llvm::any_of(program.stages, [](const auto &stage) {
           return llvm::any_of(stage->outputs, [](const auto &o) { return o->name == "loss"; });
         });
}

void printInference(llvm::raw_ostream &out, const planfile::ProgramT &program) {
  size_t outputs = 0;
  for (const auto &stage : program.stages)
    outputs += stage->results.size();
  out << "run         " << counted(program.global_batch, "row") << ", "
      << counted(program.inputs.size(), "input") << ", " << counted(outputs, "output") << "\n";
}

void printDeviceKernels(llvm::raw_ostream &out, const std::vector<planfile::DeviceImageT> &images) {
  for (const planfile::DeviceImageT &image : images)
    out << "cuda        " << image.chip << ": " << counted(image.kernels.size(), "kernel") << ", "
                 << humanBytes(image.cubin.size()) << ", assembled by " << image.assembler
                 << ", never run; " << image.refusals.size() << " not emitted\n";
}

// Tells whether the sequence is cut, and where nobody asked why not.
std::string sequenceNote(const planfile::ProgramT &program, const CompileOptions &options) {
  int64_t tokens = program.model->sequence;
  if (options.cutsSequence(tokens))
    return "on";
  if (options.tp == 1)
    return options.sequenceParallel.value_or(false) ? "off (tp is 1)" : "off";
  if (options.infer || options.sequenceParallel)
    return "off";
  return text("off (tp ", options.tp, options.cp > 1 ? text(" times cp ", options.cp) : "", " does not divide ", counted(tokens, "token"), ")");
}

void printSummary(llvm::raw_ostream &out, const planfile::ProgramT &program,
                  const CompileOptions &options, double seconds) {
  out << options.model << ": " << counted(program.model->parameters, "parameter")
      << (program.active_parameters ? text(" (", program.active_parameters, " active)") : "") << ", "
      << counted(program.model->layers, "layer") << "\n"
      << "mesh        dp " << options.dp << " x pp " << options.pp << " x tp " << options.tp
      << (options.cp > 1 ? text(" x cp ", options.cp) : "")
      << (options.ep > 1 ? text(" (experts: ep ", options.ep, " x etp ", std::max<int64_t>(1, options.etp), ")") : "")
      << " = " << counted(options.ranks(), "rank") << "\n";
  if (program.mode == planfile::Mode::Infer)
    printInference(out, program);
  else
    out << "step        " << counted(program.global_batch, "row") << " of "
        << counted(program.model->sequence, "token") << " = "
        << counted(program.micro_batches, "micro-batch") << " of "
        << counted(program.micro_batch, "row") << " per data-parallel rank, " << program.schedule
        << (options.chunks() > 1 ? text(" of ", counted(options.chunks(), "chunk"), " a stage") : "") << ", "
        << (options.optimizer == Optimizer::AdamW ? "adamw" : "sgd") << "\n";
  out << "precision   " << planfile::precisionNote(program) << "\n";
  if (std::string note = planfile::statesNote(program); !note.empty())
    out << "states      " << note
        << (options.zeroStage() == 3 ? text("; ", counted(options.gatherAhead, "layer"), " gathered ahead") : "")
        << (options.zero.value_or(0) > options.zeroStage()
                ? text("; --zero ", *options.zero, " has no second data-parallel rank to share with")
                : "")
        << "\n";
  out << "choices     " << builtChoices() << ", sequence-parallel " << sequenceNote(program, options)
      << (options.cp > 1 ? text(", cp-kind ", nameOf(options.cpKind)) : "")
      << ", recompute " << report::recomputeNote(program)
      << ", dropout " << (program.dropout.empty() ? "0" : program.dropout)
      << (options.memoryLimit ? text(", memory-limit ", options.memoryLimit) : "") << ", fusion "
      << (options.fuse ? "on" : "off") << ", zero " << options.zeroStage() << ", tie " << nameOf(options.tie)
      << ", raise " << (options.raise ? "on" : "off") << "\n";
  for (auto [i, stage] : llvm::enumerate(program.stages)) {
    uint64_t slots = 0; // of the main pools: one for each chunk
    for (size_t chunk = 0; chunk < stage->chunks.size(); ++chunk)
      slots += stage->pools[chunk]->slots;
    out << llvm::left_justify(text("stage ", i), 12) << "layers " << report::layersText(*stage) << ", "
        << counted(slots, "slot") << ", arena "
        << humanBytes(stage->arena_bytes) << " a rank\n";
  }
  std::error_code error;
  uint64_t size = std::filesystem::file_size(options.output, error);
  out << options.output << ": " << (error ? "" : humanBytes(size) + ", ")
      << counted(program.kernels.size(), "kernel") << ", compiled in " << llvm::format("%.1f", seconds) << " s\n";
}

// Returns the machine of --gpu or --cluster, of which a compilation says what it predicts; nullopt without one, or after
// errors.
std::optional<cost::Machine> machineOf(const CommandLine &line, bool &isValid) {
  isValid = true;
  if (!line.has("--gpu") && !line.has("--cluster"))
    return std::nullopt;
  CompileOptions options = line.options;
  std::vector<std::string> errors;
  if (options.infer)
    errors.push_back("--gpu and --cluster predict a step of a training; leave them out with --infer");
  if (isDump(options.model))
    errors.push_back("--gpu and --cluster predict from a model, and MODEL is IR; leave them out");
  auto machine = predict::resolve(predict::asCompiled(line.prices, options), options, /*hasDataSize=*/true, errors);
  for (const std::string &error : errors)
    fail(error);
  isValid = errors.empty();
  return machine;
}

// Holds what is predicted of a step.
struct PredictedStep {
  double step = 0, modelFlops = 0, peak = 0; // seconds; FLOPs; FLOP/s of all that computes
  std::optional<double> simulated;           // seconds, on accelerators
};

// Counts the instructions of a step on one rank of each stage.
uint64_t instructionsOfStep(const planfile::ProgramT &program) {
  uint64_t count = 0;
  for (const auto &stage : program.stages)
    for (const auto &entry : stage->table)
      count += stage->procedures[entry->procedure]->instructions.size();
  return count;
}

// Predicts a step of the program on the machine: by simulating its plan on processors that were measured, else by the
// table of the model, beside which it is simulated where that takes about a second. Nullopt after diagnostics. The program tells what is predicted of the processors that it is for
// beside what it measures.
std::optional<PredictedStep> predictStep(MLIRContext &context, const CompileOptions &options,
                                         const cost::Machine &machine, planfile::ProgramT &program) {
  predict::RaisedModels models(context);
  auto prediction = predict::readPrediction(models, options, machine, options.recompute == Recompute::Auto);
  if (!prediction)
    return std::nullopt;
  if (!predict::price(*prediction))
    return std::nullopt;
  PredictedStep predicted{prediction->time.step, prediction->time.modelFlops, double(options.ranks()) * machine.peak()};
  const auto &host = machine.cluster.host;
  constexpr uint64_t most = 4'000'000; // instructions
  if (!host && instructionsOfStep(program) > most)
    return predicted;
  auto forecast = simulate::forecast(program, machine);
  if (!forecast) {
    fail("the plan cannot be simulated, which is a bug of llmc: " + forecast.message());
    return std::nullopt;
  }
  if (!host) {
    predicted.simulated = forecast->timeline.step;
    return predicted;
  }
  predicted.step = program.predicted_step_s = forecast->timeline.step;
  program.model_flops = predicted.modelFlops;
  predicted.peak = program.peak_flops = host->cores * machine.peak();
  return predicted;
}

// Prints the prediction. Its memory is the arena of the worst stage, which is what a rank takes, and on processors what
// the process that has all ranks takes.
void printPrediction(llvm::raw_ostream &out, const cost::Machine &machine, const PredictedStep &predicted,
                     const planfile::ProgramT &program) {
  uint64_t arena = 0;
  for (const auto &stage : program.stages)
    arena = std::max<uint64_t>(arena, stage->arena_bytes);
  double step = predicted.step, memory = machine.cluster.memoryBytes;
  out << "predicted   step " << llvm::format("%.4g", step) << " s, ";
  if (predicted.simulated)
    out << "simulated " << llvm::format("%.4g", *predicted.simulated) << " s, ";
  out << "MFU "
      << llvm::format("%.1f", 100 * predicted.modelFlops / step / predicted.peak) << " %, arena " << humanBytes(arena);
  double needed = double(arena);
  if (const auto &host = machine.cluster.host) {
    needed = simulate::processPeak(program, *host);
    memory *= host->cores;
    out << ", process " << humanBytes(uint64_t(needed));
  }
  out << " of " << humanBytes(uint64_t(memory)) << " on " << machine.cluster.name
      << (needed > memory ? ": DOES NOT FIT" : "") << "\n";
}

// Holds the module to compile and the phase that it is after.
struct Work {
  CompileOptions options;
  Phase from = Phase::Import;
  std::string request; // with which a model is compiled, as the program records it; empty: it is IR
  OwningOpRef<ModuleOp> module; // null: failed, after diagnostics
  std::unique_ptr<RetryCompilation> retry; // of the plan that has room for all rows of experts; or null
};

// Reads IR, which records its phase and the options with which it was written.
Work readIr(MLIRContext &context, const CommandLine &line) {
  Work work;
  FailureOr<Dump> dump = readDump(context, line.options.model);
  if (failed(dump))
    return work;
  std::vector<std::string> problems = conflictingFlags(line.given, line.options, dump->options);
  if (line.compileFrom && *line.compileFrom != dump->phase)
    problems.push_back(text("--compile-from ", toString(*line.compileFrom),
                            ": the IR stands after phase ", toString(dump->phase),
                            "; leave --compile-from out"));
  if (line.compileTo <= dump->phase)
    problems.push_back(text("--compile-to ", toString(line.compileTo),
                            ": the IR stands after phase ", toString(dump->phase), " already"));
  for (const std::string &problem : problems)
    fail(line.options.model + ": " + problem);
  if (!problems.empty())
    return work;
  work.options = dump->options;
  work.options.model = line.options.model;
  work.options.output = line.options.output;
  work.options.dumpFolder = line.options.dumpFolder;
  work.options.cudaKernels = line.options.cudaKernels;
  work.from = dump->phase;
  if (failed(verifyPhaseBoundary(*dump->module, dump->phase)))
    fail(text(line.options.model, ": is not valid at phase boundary ", toString(dump->phase)));
  else
    work.module = std::move(dump->module);
  return work;
}

Work read(MLIRContext &context, const CommandLine &line, support::Progress &progress) {
  if (isDump(line.options.model))
    return readIr(context, line);
  Work work{line.options, Phase::Import, advise::requestText(line.choices), {}, {}};
  work.options.progress = &progress;
  if (line.compileFrom)
    fail(text(line.options.model, ": --compile-from ", toString(*line.compileFrom),
              " takes IR that --compile-to ", toString(*line.compileFrom), " wrote, this is a model"));
  else
    work.module = readModel(context, work.options);
  if (work.module && work.options.infer && !work.options.precision)
    work.options.precision = storedPrecision(*work.module);
  return work;
}

// Runs all phases up to `to`, one after the other.
LogicalResult runAll(Work &work, Phase to, support::Progress &progress) {
  for (Phase phase = work.from; phase != to;) {
    Phase next = static_cast<Phase>(static_cast<int>(phase) + 1);
    if (next == Phase::Train && to == Phase::Emit && mayLackRoom(*work.module, work.options))
      work.retry = std::make_unique<RetryCompilation>(*work.module, work.options, progress);
    support::Progress::Phase step(progress, std::string(toString(next)));
    if (failed(runPhases(*work.module, work.options, phase, next))) {
      step.end();
      if (work.from != Phase::Import)
        fail(text(work.options.model, ": at phase boundary ", toString(work.from), ": phase ", toString(next),
                  " refuses it"));
      return failure();
    }
    phase = next;
  }
  return success();
}

// Appends the sections of the plan for retries, whose plan is written to `bytes`; returns an exit code.
int addRetry(const planfile::ProgramT &first, RetryPlan &retry, std::string &bytes,
             std::vector<planfile::Section> &sections) {
  support::Status status = planfile::checkRetry(first, retry.program);
  if (!retry.findings.empty() || !status)
    return fail("the plan for retries is not valid, which is a bug of llmc:\n" +
                (status ? planfile::formatFindings(retry.findings) : status.message()));
  retry.program.compiler = first.compiler;
  bytes = planfile::writeProgram(retry.program);
  sections.push_back({std::string(planfile::kRetryPlanSection), bytes});
  for (const KernelObject &object : retry.kernels)
    sections.push_back({std::string(planfile::kRetryKernelsPrefix) + object.target, object.bytes});
  return 0;
}

// Emits the program, checks its plan and writes it to disk; returns the exit code.
int writeProgram(Work &work, support::Progress &progress, planfile::ProgramT &program,
                 std::vector<planfile::DeviceImageT> &images, const std::optional<cost::Machine> &machine,
                 std::optional<PredictedStep> &predicted) {
  std::vector<KernelObject> kernels;
  {
    support::Progress::Phase step(progress, "machine code");
    if (failed(emitProgram(*work.module, program, kernels)))
      return 1;
    program.compiler = std::string("llmc ") + LLMC_VERSION;
    if (!work.options.cudaKernels.empty() &&
        failed(emitCudaKernels(*work.module, program, work.options.cudaKernels, images)))
      return 1;
  }
  planfile::reserveScratch(program, images);
  std::optional<support::Progress::Phase> step(std::in_place, progress, "checks");
  auto findings = planfile::checkAll(program);
  if (!findings.empty())
    return fail(work.from == Phase::Import
                    ? "the plan is not valid, which is a bug of llmc:\n" + planfile::formatFindings(findings)
                    : work.options.model + ": the plan that it makes is not valid:\n" +
                          planfile::formatFindings(findings));
  if (!hasLoss(program))
    return fail(work.options.model + ": no buffer is bound to #plan.output<\"loss\">, which a "
                                     "training program reads after each step");
  if (machine)
    predicted = predictStep(*work.module->getContext(), work.options, *machine, program);
  std::string plan = planfile::writeProgram(program);
  std::vector<planfile::Section> sections = {{std::string(planfile::kPlanSection), plan}};
  if (!work.request.empty())
    sections.push_back({std::string(advise::kRequestSection), work.request});
  for (const KernelObject &object : kernels)
    sections.push_back({std::string(planfile::kKernelsPrefix) + object.target, object.bytes});
  std::vector<std::string> deviceBytes(images.size()); // sections refer to these bytes
  for (auto [image, bytes] : llvm::zip(images, deviceBytes)) {
    bytes = planfile::writeDeviceImage(image);
    sections.push_back({std::string(planfile::kCudaPrefix) + image.chip, bytes});
  }
  if (!work.retry && program.moe_budget < program.moe_budget_most && program.mode == planfile::Mode::Train)
    mlir::emitRemark(mlir::UnknownLoc::get(work.module->getContext()))
        << "has no plan for retries, which IR after phase raise cannot give: a step whose rows find no room at the "
           "ranks of their experts ends the run";
  std::string retryBytes; // a section refers to these bytes
  step.reset();
  if (work.retry) {
    RetryPlan *retry = work.retry->wait(*work.module->getContext());
    if (!retry)
      return 1;
    if (int code = addRetry(program, *retry, retryBytes, sections))
      return code;
  }
  if (auto status = planfile::writePayload(runtimePath(), sections, work.options.output); !status)
    return fail(status.message());
  return 0;
}

// Sets the choices of a command line that are open to the fastest that fit; returns an exit code.
int choose(CommandLine &line) {
  std::vector<std::string> errors;
  if (isDump(line.options.model))
    errors.push_back("auto is found from a model, and MODEL is IR, whose choices are made: leave it out");
  std::optional<Choice> choice = errors.empty() ? requestOf(line, errors) : std::nullopt;
  for (const std::string &error : errors)
    fail(error);
  if (!choice)
    return 1;
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  TerminalDiagnostics diagnostics(&context, line.options.model, support::Verbosity::Quiet); // says it again when it compiles
  predict::RaisedModels models(context);
  if (!findPlans(models, line, *choice, 1))
    return 1;
  if (choice->result.found.empty())
    return fail(line.options.model + ": " + whyNothingFits(*choice));
  const search::Found &found = choice->result.found.front();
  line.options = found.options;
  // Records the flags that were found in place of those that asked for them.
  auto flags = search::flagsOf(found.candidate, choice->request);
  if (line.options.precision && !line.has("--precision"))
    flags.emplace_back("--precision", nameOf(*line.options.precision));
  std::erase_if(line.choices, [&](const auto &given) {
    bool isAxis = planfile::roleNamed(given.first.substr(2)).has_value();
    return isAxis || line.isAuto(given.first) || llvm::any_of(flags, [&](const auto &one) { return one.first == given.first; });
  });
  for (const auto &[flag, value] : flags)
    line.choices.emplace_back(flag, value);
  if (line.verbosity != support::Verbosity::Quiet)
    llvm::errs() << "llmc: found " << search::lineOf(search::flagsOf(found.candidate, choice->request)) << " of "
                 << choice->result.candidates << llvm::format(" plans in %.2f s", choice->result.seconds) << "\n";
  return 0;
}

} // namespace

int runCompile(const CommandLine &given) {
  auto start = std::chrono::steady_clock::now();
  CommandLine line = given;
  if (given.searches())
    if (int code = choose(line))
      return code;
  if (std::string problem = checkWritable(line); !problem.empty())
    return fail(problem);
  bool isValid = true;
  std::optional<cost::Machine> machine = machineOf(line, isValid);
  if (!isValid)
    return 1;
  std::vector<support::NamedFile> inputs = inputsOf(line), outputs = outputsOf(line);
  if (support::Status status = support::checkOutputConflicts(inputs, outputs); !status)
    return fail(status.message());
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  TerminalDiagnostics diagnostics(&context, line.options.model, line.verbosity);
  support::Progress progress(std::cerr, support::isTerminal(2), line.verbosity);
  std::optional<support::Progress::Phase> reading(std::in_place, progress, "read the model");
  Work work = read(context, line, progress);
  reading.reset();
  if (!work.module)
    return 1;
  // Checks the files that the model names before anything is written.
  if (support::Status status = support::checkOutputConflicts(filesOf(*work.module), outputs);
      !status)
    return fail(status.message());
  if (failed(runAll(work, line.compileTo, progress)))
    return 1;
  if (line.compileTo != Phase::Emit) {
    support::Status status = writeDump(*work.module, line.compileTo, line.options.output);
    return status ? 0 : fail(status.message());
  }
  planfile::ProgramT program;
  std::vector<planfile::DeviceImageT> images;
  std::optional<PredictedStep> predicted;
  if (int code = writeProgram(work, progress, program, images, machine, predicted))
    return code;
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (line.verbosity == support::Verbosity::Quiet)
    return 0;
  // Prints to stderr if the program itself goes to standard output.
  bool taken = support::namedDescriptor(line.options.output) >= 0;
  llvm::raw_ostream &out = taken ? llvm::errs() : llvm::outs();
  printSummary(out, program, work.options, seconds.count());
  if (predicted)
    printPrediction(out, *machine, *predicted, program);
  printDeviceKernels(out, images);
  return 0;
}

} // namespace llmc
