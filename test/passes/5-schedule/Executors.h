// Runs an inference in every executor and interpreter that can run it.
#ifndef LLMC_TEST_PASSES_SCHEDULE_EXECUTORS_H
#define LLMC_TEST_PASSES_SCHEDULE_EXECUTORS_H

#include "dialects/parallel/Evaluate.h"
#include "lib/options/Phases.h"
#include "lib/planfile/MeshAxes.h"
#include "mlir/IR/BuiltinOps.h"

#include <random>

namespace llmc::test {

// Holds the mesh and weights of a run, its inputs, and the outputs that it must return.
struct Run {
  planfile::MeshSizes mesh;
  parallel::NamedTensors weights; // by source
  parallel::NamedTensors inputs, outputs;
};

// Runs the module `text`, which is IR at phase boundary `from`, in double (in issue order and in
// drawn orders; partitioned functions too) and in float by the plan file on all ranks. Checks the
// outputs of each.
void checkExecutors(mlir::MLIRContext &context, const std::string &text, Phase from, const Run &run,
                   const std::string &what);

// Draws numbers in [-1, 1).
graph::Tensor drawTensor(std::vector<int64_t> shape, std::mt19937 &random);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_SCHEDULE_EXECUTORS_H
