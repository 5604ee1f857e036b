// Runs a step of which only the instructions that the loss needs are executed.
#include "runtime/cpu/Executor.h"
#include "runtime/cpu/KernelRunner.h"
#include "runtime/cpu/StreamEngine.h"
#include "runtime/plan/LossSlice.h"

#include <utility>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::ok;
using support::Status;

Status Executor::prepareEvaluation() {
  if (adversary_)
    return error("evaluation does not go with --interleaving");
  support::Result<LossSlice> slice = lossSlice(program_);
  if (!slice)
    return slice.takeError();
  for (const auto &stage : ranks_->stages()) {
    std::vector<StageProgram::Procedure> procedures = stage->procedures;
    for (size_t p = 0; p < procedures.size(); ++p)
      for (std::vector<uint32_t> &list : procedures[p].byStream)
        std::erase_if(list, [&, first = procedures[p].firstOp](uint32_t op) {
          return !(*slice)[stage->stage][p][op - first];
        });
    evaluation_.push_back(std::move(procedures));
  }
  return ok();
}

Status Executor::evaluate(const std::vector<const std::byte *> &inputs) {
  if (!engine_->failure().empty())
    return error(engine_->failure());
  if (evaluation_.empty())
    if (Status s = prepareEvaluation(); !s)
      return s;
  // Swaps the procedures, so that training steps need no check for each op.
  auto swap = [this] {
    for (size_t stage = 0; stage < evaluation_.size(); ++stage)
      ranks_->stages()[stage]->procedures.swap(evaluation_[stage]);
  };
  std::vector<Traffic> traffic;
  for (const auto &rank : ranks_->all())
    traffic.push_back(rank->traffic);
  Observer *observer = engine_->observer();
  engine_->observe(nullptr);
  runner_->showRoutes(false);
  swap();
  engine_->beginStep(inputs, /*mayCommit=*/true);
  Status status;
  {
    Pinning::Scope scope(pinning_);
    status = endStep(workers_->run());
  }
  swap();
  engine_->observe(observer);
  runner_->showRoutes(true);
  for (uint32_t id = 0; id < ranks(); ++id)
    (*ranks_)[id].traffic = std::move(traffic[id]);
  return status;
}
