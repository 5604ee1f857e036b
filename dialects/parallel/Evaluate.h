// Evaluates a whole training step, or one inference, on one rank or on all ranks of a mesh, in
// double: the reference interpreter (test/passes/3-shard/StepTest.cpp).
#ifndef LLMC_DIALECTS_PARALLEL_EVALUATE_H
#define LLMC_DIALECTS_PARALLEL_EVALUATE_H

#include "dialects/graph/Rounding.h"
#include "dialects/parallel/LockstepInterpreter.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <string>
#include <functional>
#include <vector>

namespace llmc::parallel {

using NamedTensors = std::map<std::string, graph::Tensor>;

// Begins the name under which a rank keeps a flat tensor, before that of its first state.
inline constexpr llvm::StringLiteral kFlatPrefix = "flat ";

struct StepInput {
  // Holds parameters and moments by symbol, global and without padding. A state that is missing
  // begins with zeros, and so do accumulators.
  NamedTensors states;
  // Holds per micro-batch its inputs by `graph.input`: all rows of all data-parallel ranks.
  std::vector<NamedTensors> microBatches;
  // Counts how often the step has these micro-batches: it multiplies the accumulators after them.
  int64_t repeats = 1;
  // Holds the host scalars of the update, by `graph.input`.
  NamedTensors scalars;
  // Receives, if set, the results of each op of a step on one rank (graph::Observe), but nothing of many ranks.
  std::function<void(mlir::Operation *, int64_t layer, llvm::ArrayRef<graph::Tensor>)> observeResults;
  std::function<void()> ended; // called after each micro-batch, if set
  // Tells whether numbers are rounded to the types of the values that hold them.
  graph::Rounding rounding = graph::Rounding::None;
  Observer observeRanks; // sees the operands of each op of a rank of a mesh, if set
  // Runs, if set, with each rank and what it holds, before and after the update: tests of a step whose
  // gradients are not finite change a number of one rank.
  std::function<void(int64_t rank, NamedTensors &states)> beforeUpdate, afterUpdate;
};

struct StepOutput {
  NamedTensors states;  // after the update, global and without padding
  NamedTensors outputs; // by `graph.output`
  // Holds the largest absolute difference between copies of one element, or of one output, on
  // different ranks: 0 if everything has one copy, infinite if only one copy is NaN.
  double maxReplicaDifference = 0;
  int64_t collectives = 0; // executed, counted once per group
};

// Runs @micro for every micro-batch and then @update, on one rank. Where the module has a mesh and
// the functions of stages, runs forward_K, then backward_K, of all stages for every micro-batch and
// then all update_K, on every rank of `parallel.mesh`; it fills the padding of states with numbers
// that must not matter. An inference runs @forward, or forward_K of all stages, and merges the
// shards of every output. Fails with a diagnostic where an op cannot run, a tensor of the input is
// missing or has another shape, or stages wait for each other forever.
mlir::FailureOr<StepOutput> evaluateStep(mlir::ModuleOp module, const StepInput &input);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_EVALUATE_H
