#include "runtime/infer/Inference.h"

#include "runtime/session/Files.h"
#include "runtime/infer/InferenceInputs.h"
#include "runtime/infer/InferenceOutputs.h"
#include "runtime/session/Results.h"

#include <algorithm>
#include <chrono>

using namespace llmc;
using namespace llmc::runtime;
using planfile::InputDefault;
using planfile::ProgramT;
using support::error;
using support::ok;
using support::Status;
using support::text;
using Clock = std::chrono::steady_clock;

namespace {

std::string typeAndShape(planfile::DType type, const std::vector<int64_t> &shape) {
  return text(planfile::numpyName(type), " ", support::shapeText(shape));
}

// Returns lines with the names in one column and `cells` beside them.
std::string columns(const std::vector<std::pair<std::string, std::string>> &cells) {
  size_t width = 0;
  for (const auto &[name, cell] : cells)
    width = std::max(width, name.size());
  std::string out;
  for (const auto &[name, cell] : cells)
    out += "  " + name + std::string(width - name.size() + 2, ' ') + cell + "\n";
  return out;
}

void announce(std::ostream &out, const Executor &executor, const Weights &weights,
              const InferenceInputs &inputs) {
  announceModel(out, executor);
  announceMemory(out, executor, weights);
  for (const std::string &note : inputs.notes())
    out << "input      " << note << "\n";
  out << "products   " << executor.libraryNote() << std::endl;
}

// Runs `repeat` times more and prints how long a run takes; stops early on a signal. Appends
// sorted seconds to `times`.
Status measure(Executor &executor, const InferenceInputs &inputs, uint64_t repeat, double first,
               const RunContext &context, std::vector<double> &times) {
  while (times.size() < repeat && !context.stopped()) {
    Clock::time_point start = Clock::now();
    if (Status s = executor.runStep(inputs.pointers()); !s)
      return s;
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    writeDueTrace(*context.out, executor);
  }
  std::sort(times.begin(), times.end());
  if (times.empty())
    return ok();
  char line[160];
  std::snprintf(line, sizeof line,
                "latency    median %.3f ms, least %.3f, most %.3f of %zu runs; the first took %.3f",
                times[times.size() / 2] * 1e3, times.front() * 1e3, times.back() * 1e3,
                times.size(), first * 1e3);
  *context.out << line << std::endl;
  return ok();
}

Status writeResults(const Executor &executor, const std::string &folder,
                    const std::vector<OutputFileName> &outputs, std::ostream &out) {
  if (Status s = writeOutputs(executor, folder, outputs); !s)
    return error("--output: ", s.message());
  for (const OutputFileName &output : outputs)
    out << "output     " << folder << "/" << output.file << "  "
        << typeAndShape(output.result->dtype, output.result->global_shape) << "\n";
  return ok();
}

} // namespace

support::Result<Ended> runtime::infer(const ProgramT &program, const Kernels &kernels,
                                       const Options &options, const RunContext &given) {
  Console console(given, options);
  const RunContext &context = console.context();
  std::ostream &out = *context.out;
  if (options.output.empty() && options.repeat == 0)
    return error("where shall the outputs go? give --output DIR");
  support::Result<InferenceInputs> inputs = InferenceInputs::open(program, options.inputs);
  if (!inputs)
    return inputs.takeError();
  support::Result<Weights> weights = openWeights(program, options, context);
  if (!weights)
    return weights.takeError();
  std::vector<OutputFileName> outputs = outputFiles(program);
  std::vector<std::string> paths;
  for (const OutputFileName &output : outputs)
    if (!options.output.empty())
      paths.push_back(options.output + "/" + output.file);
  if (Status s = checkFiles(program, options, context, *weights, paths); !s)
    return s.takeError();
  if (!options.output.empty())
    if (Status s = checkOutputsWritable(options.output, outputs); !s)
      return s.takeError();
  support::Result<std::unique_ptr<Executor>> executor = makeExecutor(program, kernels, options, 1 + options.repeat);
  if (!executor)
    return executor.takeError();
  announce(out, **executor, *weights, *inputs);
  {
    support::Progress::Phase phase(*context.progress, "filling weights");
    if (Status s = weights->fill(**executor, &phase); !s)
      return s.takeError();
  }
  std::unique_ptr<WeightsCheck> check = weights->check();
  if (Status s = check->begin(); !s)
    return s.takeError();

  Clock::time_point start = Clock::now();
  Problems problems;
  problems.add((*executor)->runStep(inputs->pointers()));
  double first = std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<double> times;
  if (problems.empty()) {
    context.begin();
    writeDueTrace(out, **executor);
    if (Status s = check->finish(); !s)
      return s.takeError();
    if (!options.output.empty())
      problems.add(writeResults(**executor, options.output, outputs, out));
    problems.add(measure(**executor, *inputs, options.repeat, first, context, times));
  }
  problems.add(finishRun(out, **executor, options, 1 + times.size(), problems.empty()));
  out.flush();
  if (Status s = problems.status(); !s)
    return s.takeError();
  return context.stopped() ? Ended::Stopped : Ended::Whole;
}

std::string runtime::bindingsText(const ProgramT &program) {
  std::vector<std::pair<std::string, std::string>> inputs, outputs;
  for (const auto &input : program.inputs) {
    std::string note = input->default_value == InputDefault::Ones        ? "  (ones)"
                       : input->default_value == InputDefault::Zeros     ? "  (zeros)"
                       : input->default_value == InputDefault::Positions ? "  (0, 1, ...)"
                       : input->default_value == InputDefault::RowIds ? "  (its number of each row)"
                                                                         : "";
    inputs.emplace_back(input->name, typeAndShape(input->dtype, input->global_shape) + note);
  }
  for (const OutputFileName &output : outputFiles(program))
    outputs.emplace_back(output.result->name,
                         typeAndShape(output.result->dtype, output.result->global_shape));
  return text("\ninputs (in brackets: what is taken where none is given)\n", columns(inputs),
              "\noutputs\n", columns(outputs));
}
