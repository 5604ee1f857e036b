#include "Runner.h"

#include "Memory.h"
#include "Threads.h"
#include "dialects/graph/Evaluate.h"
#include "mlir/Parser/Parser.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/simt/Simt.h"
#include <algorithm>
#include <cfloat>
#include <cmath>

using namespace mlir;

namespace llmc::test {

namespace {

struct Compiled {
  OwningOpRef<ModuleOp> module;
  func::FuncOp func;
  int64_t rows = 0;
  SmallVector<int64_t> extents;
  int64_t threads = 0; // of a block; 0: a kernel of loops
  int64_t scratch = 0; // bytes
  bool isLibrary = false;
};

} // namespace

static std::string elementName(Type tensor) {
  std::string text;
  llvm::raw_string_ostream(text) << getElementTypeOrSelf(tensor);
  return text;
}
static int64_t countOf(Type tensor) { return cast<RankedTensorType>(tensor).getNumElements(); }

// Draws a score, one of few if many are to be equal.
static double drawScore(std::normal_distribution<double> &normal, bool isEqual, Random &random) {
  static const double special[] = {NAN, -NAN, INFINITY, -INFINITY, -0.0, 0.0};
  if (draw(random, 0, 7) == 0)
    return special[draw(random, 0, std::size(special) - 1)];
  return isEqual ? draw(random, -2, 2) : normal(random);
}

static std::vector<double> fill(const Argument &argument, RankedTensorType type, Random &random) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> unit;
  std::vector<double> values(type.getNumElements());
  int64_t row = type.getRank() ? type.getShape().back() : 1;
  double scale = std::pow(10.0, 4 * unit(random) - 3);
  bool isEqual = scale < 0.1;
  for (double &value : values) {
    switch (argument.fill) {
    case Fill::Normal:
    case Fill::Infinite:
      value = normal(random);
      break;
    case Fill::Wide:
      value = scale * normal(random);
      break;
    case Fill::Positive:
      value = 0.1 + 1.9 * unit(random);
      break;
    case Fill::Probability:
      value = unit(random) / row;
      break;
    case Fill::Ids:
      value = draw(random, argument.low, argument.high - 1);
      break;
    case Fill::Bits:
      value = draw(random, 0, 1);
      break;
    case Fill::Shown:
      value = 1;
      break;
    case Fill::Scores:
      value = drawScore(normal, isEqual, random);
      break;
    }
    if (isa<FloatType>(type.getElementType()))
      value = roundedTo(elementName(type), value);
  }
  if (argument.fill == Fill::Infinite || argument.fill == Fill::Shown)
    for (size_t i = 0; i < values.size(); ++i)
      if (i / row % 3 == 0 || draw(random, 0, 4) == 0)
        values[i] = argument.fill == Fill::Shown ? 0 : -INFINITY;
  return values;
}

// Runs the kernel over parts of its rows, in any order.
static void runParts(KernelFunction kernel, const std::vector<void *> &buffers,
                     const std::vector<int64_t> &scalars, int64_t rows, int64_t cuts,
                     Random &random) {
  std::vector<int64_t> ends{0, rows};
  for (int64_t i = 0; i < cuts; ++i)
    ends.push_back(draw(random, 0, rows));
  std::sort(ends.begin(), ends.end());
  std::vector<size_t> order(ends.size() - 1);
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (size_t i : order)
    kernel(buffers.data(), scalars.data(), ends[i], ends[i + 1]);
}

// |x - wanted| of the largest finite magnitude; infinite where one is not finite
// and the other not the same. Integers are the same or not; an i1 says whether the
// value is not zero.
static double errorOf(const std::vector<double> &got, const std::vector<double> &wanted,
                      const std::string &element, double floor) {
  if (element != "f32" && !isNarrow(element)) {
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != (element == "i1" ? wanted[i] != 0 : wanted[i]))
        return INFINITY;
    return 0;
  }
  // Allows the one rounding of what is stored, in units of the number and below the normal ones.
  double half = element == "bf16" ? 0x1p-8 : element == "f16" ? 0x1p-11 : 0;
  double least = element == "bf16" ? 0x1p-134 : element == "f16" ? 0x1p-25 : 0;
  double most = element == "f16" ? 65504 : double(FLT_MAX);
  double largest = floor, error = 0;
  for (double value : wanted)
    if (std::isfinite(value))
      largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(wanted[i]))
      continue;
    if (half > 0 && std::fabs(wanted[i]) >= most && std::fabs(got[i]) >= most)
      continue; // rounded to the largest number or to infinity
    if (!std::isfinite(got[i]) || !std::isfinite(wanted[i])) {
      if (got[i] != wanted[i])
        return INFINITY;
      continue;
    }
    double off = std::fabs(got[i] - wanted[i]);
    if (half > 0)
      off = std::max(0.0, off - std::max(half * std::fabs(wanted[i]), least));
    error = std::max(error, off / largest);
  }
  return error;
}

namespace {

// One case with its memory.
class Trial {
public:
  Trial(const Case &test, Compiled &compiled, Random &random)
      : test(test), compiled(compiled), random(random) {}

  Outcome run(KernelFunction kernel) {
    auto types = compiled.func.getFunctionType();
    std::vector<graph::Tensor> inputs;
    for (auto [argument, type] : llvm::zip(test.arguments, types.getInputs())) {
      auto tensor = cast<RankedTensorType>(type);
      inputs.emplace_back(std::vector<int64_t>(tensor.getShape()));
      inputs.back().data = fill(argument, tensor, random);
    }
    auto wanted = graph::evaluate(compiled.func, inputs);
    if (failed(wanted))
      return {"cannot be evaluated"};

    auto whole = execute(kernel, inputs, 0), parts = execute(kernel, inputs, draw(random, 1, 6));
    Outcome outcome;
    outcome.problem = problem;
    for (size_t i = 0; i < whole.size(); ++i) {
      if (!whole[i].isPaddingClean() || !parts[i].isPaddingClean())
        outcome.problem = "writes past the end";
      if (whole[i].bytes() && std::memcmp(whole[i].data(), parts[i].data(), whole[i].bytes()) != 0)
        outcome.problem = "parts of the rows give other bits than the whole";
      double error = errorOf(whole[i].read(), (*wanted)[i].data, whole[i].element, test.floor);
      outcome.error = std::max(outcome.error, error);
    }
    if (!(outcome.error <= test.tolerance))
      outcome.problem = "error " + std::to_string(outcome.error * 1e6) + "e-6";
    return outcome;
  }

private:
  const Case &test;
  Compiled &compiled;
  Random &random;
  std::string problem;

  std::vector<Buffer> execute(KernelFunction kernel, const std::vector<graph::Tensor> &inputs,
                              int64_t cuts) {
    auto types = compiled.func.getFunctionType();
    std::vector<Buffer> reads, writes;
    size_t alignment = compiled.threads ? 16 : 1;
    std::vector<void *> pointers;
    std::vector<int64_t> scalars;
    for (auto [i, type] : llvm::enumerate(types.getInputs())) {
      if (i >= test.scalarsFrom) {
        scalars.push_back(inputs[i].data[0]);
        continue;
      }
      reads.emplace_back(elementName(type), countOf(type), alignment);
      reads.back().write(inputs[i].data);
      pointers.push_back(reads.back().data());
    }
    scalars.insert(scalars.end(), compiled.extents.begin(), compiled.extents.end());
    for (auto [i, type] : llvm::enumerate(types.getResults())) {
      writes.emplace_back(elementName(type), countOf(type), alignment);
      writes.back().fillWithGarbage();
      int alias = test.aliases[i];
      pointers.push_back(alias < 0 ? writes.back().data() : reads[alias].data());
    }
    int64_t words = compiled.scratch / 8;
    Buffer scratch("i64", words, alignment);
    scratch.write(std::vector<double>(words, 0));
    if (words > 0)
      pointers.push_back(scratch.data());
    if (compiled.threads)
      problem += runGrid(kernel, pointers, scalars, 0, compiled.rows, compiled.threads, cuts + 1,
                         random);
    else
      runParts(kernel, pointers, scalars, compiled.rows, cuts, random);
    if (words > 0 && (scratch.read()[0] != 0 || scratch.read()[1] != 0))
      problem += "scratch does not end with the zeros that it began with; ";
    for (auto [i, alias] : llvm::enumerate(test.aliases))
      if (alias >= 0)
        std::memcpy(writes[i].data(), reads[alias].data(), writes[i].bytes());
    return writes;
  }
};

} // namespace

// Gives a kernel its threads, and a form in which they run here.
static LogicalResult giveThreads(func::FuncOp kernel, Compiled &compiled) {
  compiled.isLibrary = kernel->hasAttr(emit::kLibrary);
  if (compiled.isLibrary)
    return success();
  if (failed(emit::mapToThreads(kernel)))
    return failure();
  auto launch = emit::ThreadLaunch::of(kernel);
  if (failed(launch))
    return failure();
  compiled.threads = launch->threads;
  compiled.scratch = launch->scratchBytes;
  askGrid(kernel);
  return success();
}

std::vector<Outcome> runCases(MLIRContext &context, const emit::KernelTarget &target,
                              const std::vector<Case> &cases, Random &random) {
  std::vector<Outcome> outcomes(cases.size());
  std::vector<Compiled> compiled(cases.size());
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
  for (size_t i = 0; i < cases.size(); ++i) {
    compiled[i].module = parseSourceString<ModuleOp>(cases[i].text, ParserConfig(&context));
    if (!compiled[i].module) {
      outcomes[i].problem = "does not parse";
      continue;
    }
    compiled[i].func = *compiled[i].module->getOps<func::FuncOp>().begin();
    Block &block = compiled[i].func.getBody().front();
    emit::Kernel kernel(*kernels, "kernel" + std::to_string(i), UnknownLoc::get(&context),
                        target);
    unsigned reads = std::min<size_t>(cases[i].scalarsFrom, block.getNumArguments());
    if (failed(emit::emitLaunch(kernel, {block, reads}))) {
      outcomes[i].problem = "cannot be emitted";
      kernel.func.erase();
      continue;
    }
    compiled[i].rows = kernel.rows;
    compiled[i].extents.assign(kernel.extents.begin(), kernel.extents.end());
    if (target.threads && failed(giveThreads(kernel.func, compiled[i])))
      outcomes[i].problem = "cannot be dealt out to threads";
    if (compiled[i].isLibrary || !outcomes[i].problem.empty())
      kernel.func.erase();
  }
  auto object = emit::makeSharedObject(*kernels, target.threads ? emit::kAvx2Target : target);
  Library library(succeeded(object) ? *object : "");
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!outcomes[i].problem.empty() || compiled[i].isLibrary)
      continue;
    void *symbol = library.problem.empty() ? library.symbol("kernel" + std::to_string(i)) : nullptr;
    outcomes[i] =
        symbol ? Trial(cases[i], compiled[i], random).run(reinterpret_cast<KernelFunction>(symbol))
               : Outcome{"is not in the shared object " + library.problem};
  }
  return outcomes;
}

} // namespace llmc::test
