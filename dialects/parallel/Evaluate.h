// The reference interpreter of a whole training step, or of one inference, on one
// rank or on all ranks of a mesh, in double.
#ifndef LLMC_DIALECTS_PARALLEL_EVALUATE_H
#define LLMC_DIALECTS_PARALLEL_EVALUATE_H

#include "dialects/graph/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <string>
#include <functional>
#include <vector>

namespace llmc::parallel {

using NamedTensors = std::map<std::string, graph::Tensor>;

struct StepInput {
  // Parameters and moments by symbol, global and without padding; a state that
  // is not there begins with zeros, and so do accumulators.
  NamedTensors states;
  // Per micro-batch its inputs by `graph.input`, all rows of all data ranks.
  std::vector<NamedTensors> microBatches;
  // How often the step has these micro-batches: what accumulators hold after them is multiplied.
  int64_t repeats = 1;
  // Host scalars of the update, by `graph.input`.
  NamedTensors scalars;
  std::function<void()> ended; // called after each micro-batch, if it is there
};

struct StepOutput {
  NamedTensors states;  // after the update, global and without padding
  NamedTensors outputs; // by `graph.output`
  // Largest absolute difference between copies of one element, or of one
  // output, on different ranks. Zero if there is one copy of everything.
  double replicaError = 0;
  int64_t collectives = 0; // executed, counted once per group
};

// Runs @micro for every micro-batch and then @update, on one rank; or, where
// the module has the functions of stages, forward_K and backward_K of all
// stages for every micro-batch and then all update_K, on every rank of
// `parallel.mesh`. Padding of states is filled with numbers that must not
// matter. Of an inference it runs @forward, or forward_K of all stages, and puts the
// parts of every output together. Fails with a diagnostic where an op cannot run, tensors of the input
// do not fit, or ranks wait for each other.
mlir::FailureOr<StepOutput> evaluateStep(mlir::ModuleOp module, const StepInput &input);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_EVALUATE_H
