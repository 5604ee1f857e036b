#include "runtime/train/Evaluation.h"

#include "runtime/plan/LossSlice.h"
#include "runtime/session/Session.h"

#include <cmath>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::text;

support::Result<Evaluation> Evaluation::open(const planfile::ProgramT &program,
                                             const Options &options,
                                             support::Progress &progress) {
  DataOptions which;
  which.tokens = {{options.evalData, 1}};
  which.shuffle = false;
  which.drops = false;
  which.tokenType = options.tokenType;
  support::Result<Data> data = Data::open(program, which);
  if (!data)
    return error("--eval-data: ", data.message());
  Evaluation evaluation(std::move(*data), options.evalEvery);
  uint64_t all = evaluation.data_.stepsOfEpoch(), rows = evaluation.data_.rows();
  if (options.evalBatches > all)
    return error("--eval-batches ", options.evalBatches, ": '", options.evalData, "' has ", all,
                 " batches of ", program.global_batch, " rows");
  evaluation.batches_ = options.evalBatches ? options.evalBatches : all;
  uint64_t used = evaluation.batches_ * program.global_batch;
  evaluation.note_ = text(evaluation.data_.note(), ", ", evaluation.batches_, " batches");
  if (used < rows)
    evaluation.note_ += text(", the last ", rows - used, " rows are left out");
  evaluation.note_ += options.evalEvery
                          ? text("; every ", options.evalEvery, " steps and at the end")
                          : "; at the end";
  if (support::Status s = evaluation.data_.beginCheck(progress, kCheckSeconds); !s)
    return error("--eval-data: ", s.message());
  return evaluation;
}

support::Result<std::optional<double>> Evaluation::run(Executor &first, Retry &retry,
                                                       support::Progress &progress,
                                                       const std::atomic<bool> *stop) {
  support::Progress::Phase phase(progress, "evaluating", batches_);
  double sum = 0, tokens = 0;
  for (uint64_t batch = 0; batch < batches_; ++batch) {
    if (stop && *stop)
      return std::optional<double>();
    if (support::Status s = data_.load(batch); !s)
      return error("--eval-data: ", s.message());
    Executor *executor = &first;
    if (support::Status s = executor->evaluate(data_.batch()); !s)
      return s.takeError();
    if (retry.exists() && !checkRoom(*executor)) {
      support::Result<Executor *> again = retry.executor();
      if (!again)
        return error("--eval-data: ", again.message());
      executor = *again;
      if (support::Status s = executor->evaluate(data_.batch()); !s)
        return s.takeError();
    }
    if (support::Status s = checkRoom(*executor); !s)
      return error("--eval-data: ", s.message());
    double loss = readOutput(*executor, evaluatedOutput(executor->program())).value_or(NAN);
    double count = readOutput(*executor, "tokens").value_or(1); // 1: equal weights
    sum += loss * count;
    tokens += count;
    phase.add(1);
  }
  return std::optional<double>(sum / tokens);
}
