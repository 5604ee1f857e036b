#include "lib/budget/Budget.h"

#include "lib/budget/Checkpoints.h"
#include "lib/budget/Laws.h"
#include "lib/cost/Cluster.h"
#include "lib/support/Error.h"
#include "lib/support/Nearest.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::budget;
using support::text;
using Q = Quantity;

namespace {

// Allows for roundings where an MFU follows from other flags.
constexpr double kMostMfu = 1 + 1e-9;

// Sets the peak of the accelerator.
void givePeak(const Question &question, Quantities &quantities, std::vector<std::string> &errors) {
  if (question.gpu.empty())
    return;
  std::vector<std::string> names = cost::gpuNames();
  auto gpu = cost::findGpu(question.gpu);
  if (!gpu) {
    std::string all, hint = support::didYouMean(question.gpu, names);
    for (const std::string &name : names)
      all += (all.empty() ? "" : ", ") + name;
    return errors.push_back(text("--gpu ", question.gpu, " is not known", hint.empty() ? ";" : hint, " valid are ", all));
  }
  double peak = question.products == Products::Fp8    ? gpu->peakFp8
                : question.products == Products::Fp32 ? gpu->peakFp32
                                                      : gpu->peak16;
  if (peak <= 0)
    return errors.push_back(text("--precision fp8: ", gpu->name, " has no products in fp8; use bf16"));
  quantities.give(Q::Peak, peak);
}

// Says which flags would determine a training.
std::string underdetermined(const Quantities &quantities) {
  const std::vector<Q> ways[] = {{Q::Peak, Q::Mfu, Q::Gpus, Q::Days}, {Q::Peak, Q::Mfu, Q::Dollars, Q::Price}};
  std::vector<Q> fewest;
  bool isBegun = false;
  for (const std::vector<Q> &way : ways) {
    std::vector<Q> missing;
    std::copy_if(way.begin(), way.end(), std::back_inserter(missing), [&](Q q) { return !quantities[q]; });
    if (missing.size() < way.size() && (!isBegun || missing.size() < fewest.size()))
      fewest = missing, isBegun = true;
  }
  std::string begun;
  for (Q q : fewest)
    begun += (begun.empty() ? "" : " and ") + std::string(flagOf(q));
  return text("a budget needs --flops; or --params or --tokens, or both; or --gpu, --mfu, --gpus and --days; or --gpu, "
              "--mfu, --dollars and --dollars-per-gpu-hour",
              begun.empty() ? "" : text("; here ", begun, fewest.size() == 1 ? " is" : " are", " missing"));
}

// Sets parameters and tokens where the law has to choose them. Returns whether it chose: whether the training is one
// that the law calls optimal.
bool chooseBy(const Law &law, Quantities &quantities) {
  auto flops = quantities[Q::Flops], params = quantities[Q::Params], tokens = quantities[Q::Tokens];
  if (params && tokens)
    return false;
  double optimal = flops ? *flops : params ? law.flopsOfParams(*params) : law.flopsOfTokens(*tokens);
  if (!params)
    quantities.choose(Q::Params, law.params(optimal));
  if (!tokens)
    quantities.choose(Q::Tokens, optimal / 6 / law.params(optimal));
  return true;
}

void finish(const Question &question, const std::optional<Cadence> &cadence, Row &row) {
  row.quantities.resolve();
  row.params = *row.quantities[Q::Params];
  row.tokens = *row.quantities[Q::Tokens];
  row.flops = *row.quantities[Q::Flops];
  row.isFeasible = row.quantities[Q::Mfu].value_or(0) <= kMostMfu;
  if (question.inferenceTokens) {
    row.inferenceFlops = 2 * row.params * *question.inferenceTokens;
    row.totalFlops = row.flops + *row.inferenceFlops;
  }
  if (auto days = row.quantities[Q::Days]; days && cadence && cadence->goodput > 1e-9)
    row.wallDays = *days / cadence->goodput;
}

Row rowOf(const Law &law, const Quantities &known, const Question &question, const std::optional<Cadence> &cadence) {
  Row row{law.name, law.source, law.lossSource, known};
  bool isOptimal = chooseBy(law, row.quantities);
  finish(question, cadence, row);
  if (law.loss)
    row.loss = law.loss(row.params, row.tokens, isOptimal);
  return row;
}

// Returns the training that reaches what is asked for with the fewest FLOPs of training and inference. What is given says
// how good the model must be; how long its training takes follows from the accelerators.
Row inferenceRow(const Quantities &known, const Question &question, const std::optional<Cadence> &cadence) {
  const LossFit &fit = sardanaFit();
  Row usual = rowOf(lawOf("", "", fit), known, question, cadence);
  Row row{"sardana",
          "the fewest 6 params tokens + 2 params inference-tokens for the loss of the training that is asked for, or "
          "that is optimal for what is (Sardana et al., 2023, section 2)",
          "1.69 + 406.4/N^0.336 + 410.7/D^0.283 (Hoffmann et al., 2022, with the digits of Sardana et al.)", known};
  Training least = leastOfLife(fit, fit.reducible(usual.params, usual.tokens), *question.inferenceTokens);
  for (Q q : {Q::Flops, Q::Params, Q::Tokens, Q::Days, Q::GpuHours, Q::Dollars})
    row.quantities.forget(q);
  row.quantities.choose(Q::Params, least.params);
  row.quantities.choose(Q::Tokens, least.tokens);
  finish(question, cadence, row);
  row.loss = fit.loss(row.params, row.tokens);
  row.saved = 1 - *row.totalFlops / *usual.totalFlops;
  return row;
}

std::optional<Cadence> cadenceOf(const Question &question, std::vector<std::string> &errors) {
  if (question.mtbfHours.has_value() != question.checkpointSeconds.has_value())
    errors.push_back(question.mtbfHours ? "--mtbf-hours says how often to write checkpoints if it is known how long one "
                                          "takes: give --checkpoint-seconds too"
                                        : "--checkpoint-seconds says how often to write checkpoints if it is known how "
                                          "often the job fails: give --mtbf-hours too");
  if (!question.mtbfHours || !question.checkpointSeconds)
    return std::nullopt;
  Failures failures{*question.mtbfHours * 3600, *question.checkpointSeconds, question.restartSeconds};
  double daly = dalyCadence(failures);
  return Cadence{youngCadence(failures), daly, goodput(failures, daly)};
}

} // namespace

std::optional<Answer> budget::answer(const Question &question, std::vector<std::string> &errors) {
  Answer answer;
  answer.gpu = question.gpu;
  answer.cadence = cadenceOf(question, errors);
  Quantities known;
  givePeak(question, known, errors);
  bool isAsked = !question.gpu.empty() || question.inferenceTokens;
  for (int i = 0; i < kQuantities; ++i)
    if (question.given[i]) {
      known.give(Q(i), *question.given[i]);
      isAsked = true;
    }
  if (!isAsked && answer.cadence)
    return answer;
  std::vector<std::string> contradictions = known.resolve();
  errors.insert(errors.end(), contradictions.begin(), contradictions.end());
  if (!errors.empty())
    return std::nullopt;
  if (!known[Q::Flops] && !known[Q::Params] && !known[Q::Tokens]) {
    errors.push_back(underdetermined(known));
    return std::nullopt;
  }
  for (Q q : {Q::Params, Q::Tokens})
    if (known[q] && *known[q] < 1)
      errors.push_back(text("fewer than one of ", flagOf(q) + 2, " follows: give more --flops, --gpus, --days or ",
                            "--dollars, or fewer ", flagOf(q == Q::Params ? Q::Tokens : Q::Params)));
  if (!errors.empty())
    return std::nullopt;
  for (const Law &law : laws())
    answer.rows.push_back(rowOf(law, known, question, answer.cadence));
  errors = answer.rows.front().quantities.unused();
  if (std::none_of(answer.rows.begin(), answer.rows.end(), [](const Row &row) { return row.isFeasible; }))
    errors.push_back(text("an MFU of ", *answer.rows.front().quantities[Q::Mfu], " follows, and none is above 1: ",
                          "give more --gpus, --days or --dollars, or fewer --flops, --params or --tokens"));
  if (!errors.empty())
    return std::nullopt;
  if (question.inferenceTokens)
    answer.rows.push_back(inferenceRow(known, question, answer.cadence));
  return answer;
}
