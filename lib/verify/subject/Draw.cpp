// Draws rows, labels, weights and scalars such that errors show in the outcome.
#include "lib/support/Dropout.h"
#include "lib/verify/subject/RunPlan.h"
#include "lib/verify/subject/Subject.h"
#include "runtime/states/Random.h"

#include <cmath>
#include <filesystem>
#include <limits>

namespace llmc::verify {
namespace {

using planfile::InputDefault;

// Returns a number in [0, 1) that depends on (seed, stream, index) alone.
double uniform(uint64_t seed, uint32_t stream, uint64_t index) {
  auto bits = runtime::philox({uint32_t(index), uint32_t(index >> 32), stream, 0},
                              {uint32_t(seed), uint32_t(seed >> 32)});
  return bits[0] / 4294967296.0;
}

double element(const planfile::InputBindingT &input, int64_t vocabulary, uint64_t seed,
               uint32_t stream, int64_t i, int64_t rows, int64_t width) {
  if (input.default_value == InputDefault::Ones)
    return 1;
  if (input.default_value == InputDefault::Positions)
    return double(i % width);
  if (input.default_value == InputDefault::Zeros)
    return 0;
  if (input.default_value == InputDefault::DropoutKeys)
    return double(support::dropoutKey(seed, stream, uint64_t(i)));
  double token = std::floor(uniform(seed, stream, i) * double(vocabulary));
  if (input.name != "labels")
    return token;
  // Ignore almost no label in the first rows and up to 60 % in the last, but never a row's first.
  double share = 0.6 * (double(i / width) + 0.5) / double(rows);
  bool ignored = i % width != 0 && uniform(seed, stream + 1, i) < share;
  return ignored ? -100 : token;
}

// Draws an input of an inference by what the plan records of it: positions; ids of the table that
// it indexes; otherwise, for an integer or boolean type, a mask whose rows begin with at least
// one 1 and end with zeros; normal numbers for a float type.
Tensor drawInput(const planfile::InputBindingT &input, uint64_t seed, uint32_t stream) {
  using planfile::DType;
  Tensor value(input.global_shape);
  int64_t width = value.shape.empty() ? 1 : std::max<int64_t>(1, value.shape.back());
  bool isFloat = input.dtype == DType::F32 || input.dtype == DType::F64;
  for (int64_t i = 0; i < value.size(); ++i) {
    int64_t row = i / width, column = i % width;
    double &x = value.data[i];
    if (isFloat) {
      x = static_cast<float>(runtime::normal(seed, stream, i));
    } else if (input.default_value == InputDefault::Positions) {
      x = double(input.limit > 0 ? column % input.limit : column);
    } else if (input.limit > 0) {
      x = std::floor(uniform(seed, stream, i) * double(input.limit));
    } else {
      x = column <= std::floor(uniform(seed, stream, row) * double(width)) ? 1 : 0;
    }
  }
  return value;
}

StepData drawRun(const planfile::ProgramT &program, uint64_t seed, unsigned step) {
  StepData data;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    data.inputs[program.inputs[i]->name] =
        drawInput(*program.inputs[i], seed, static_cast<uint32_t>(step * 4096 + i));
  return data;
}

StepData drawStep(const planfile::ProgramT &program, uint64_t seed, unsigned step,
                  int64_t repeats) {
  StepData data;
  data.repeats = repeats;
  for (const auto &input : program.inputs) {
    std::vector<int64_t> shape = input->local_shape;
    shape[0] = program.global_batch / repeats;
    Tensor &tensor = data.inputs[input->name] = Tensor(shape);
    auto stream = static_cast<uint32_t>(step * 64 + (&input - program.inputs.data()) * 2);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.data[i] = element(*input, program.model->vocabulary, seed, stream, i, shape[0],
                               tensor.size() / shape[0]);
  }
  bool adam = program.optimizer == planfile::OptimizerKind::AdamW;
  double beta1 = 0.9, beta2 = 0.95;
  // Clip every other step for certain: clipped steps alone would hide a wrong scale of all
  // gradients, and unclipped ones a wrong norm.
  double clip = step % 2 == 1 ? 0.125 : double(std::numeric_limits<float>::max());
  const std::pair<const char *, double> scalars[] = {
      {"lr", adam ? 1e-3 : 0.05},
      {"beta1", beta1},
      {"beta2", beta2},
      {"eps", 1e-8},
      {"weight_decay", 0.1},
      {"clip", clip},
      {"bias_correction1", 1 - std::pow(beta1, step + 1)},
      {"bias_correction2", 1 - std::pow(beta2, step + 1)},
      {"loss_scale", 4}}; // as 1,024 on a mean over 256 tokens
  for (auto [name, value] : scalars)
    data.scalars[name] = static_cast<float>(value);
  return data;
}

// Adds noise to tensors whose elements are all equal.
void disturb(NamedTensors &weights, uint64_t seed) {
  uint64_t stream = 1;
  for (auto &[name, tensor] : weights) {
    ++stream;
    if (llvm::any_of(tensor.data, [&](double x) { return x != tensor.data.front(); }))
      continue;
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.data[i] = static_cast<float>(tensor.data[i] + 0.02 * runtime::normal(seed, stream, i));
  }
}

// Fails if a weight is not a number: with it every loss is none, and nothing could be compared.
support::Status checkNumbers(const NamedTensors &weights) {
  for (const auto &[name, tensor] : weights) {
    auto isNan = [](double x) { return std::isnan(x); };
    auto first = llvm::find_if(tensor.data, isNan);
    if (first != tensor.data.end())
      return support::error("weight '", name, "' has ", llvm::count_if(tensor.data, isNan), " of ", tensor.size(),
                            " elements that are not a number (NaN), the first at place ", first - tensor.data.begin(),
                            ": with them every loss is none, and nothing can be compared; take a file without them");
  }
  return {};
}

} // namespace

StepData drawStep(const Subject &one, uint64_t seed, unsigned step, int64_t microBatches) {
  int64_t all = one.options.microBatches(), different = std::min(all, microBatches);
  while (all % different != 0)
    --different;
  return drawStep(*one.program, seed, step, all / different);
}

support::Result<Trial> drawTrial(const Subject &one, uint64_t seed, unsigned steps,
                                 int64_t microBatches) {
  Trial trial;
  std::string folder = std::filesystem::path(one.options.model).parent_path().string();
  auto weights = initialWeights(*one.program, *one.kernels, seed, folder);
  if (!weights)
    return weights.takeError();
  if (support::Status status = checkNumbers(*weights); !status)
    return status.takeError();
  trial.weights = std::move(*weights);
  disturb(trial.weights, seed);
  for (unsigned step = 0; step < steps; ++step)
    trial.steps.push_back(one.program->mode == planfile::Mode::Infer
                              ? drawRun(*one.program, seed, step)
                              : drawStep(one, seed, step, microBatches));
  return trial;
}

} // namespace llmc::verify
