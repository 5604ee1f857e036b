#include "runtime/train/Retry.h"

using namespace llmc;
using namespace llmc::runtime;

support::Result<Executor *> Retry::executor() {
  if (executor_)
    return executor_.get();
  support::Result<std::unique_ptr<Executor>> made = makeRetry(first_, context_, options_);
  if (!made)
    return support::error(made.message(), "; or compile with --moe-budget ", first_.program().moe_budget_most,
                          ", which has room for all rows from the start");
  executor_ = std::move(*made);
  return executor_.get();
}
