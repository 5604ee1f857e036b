// An inference by every machine that can run it.
#ifndef LLMC_TEST_PASSES_SCHEDULE_MACHINES_H
#define LLMC_TEST_PASSES_SCHEDULE_MACHINES_H

#include "dialects/parallel/Evaluate.h"
#include "lib/pipeline/Phases.h"
#include "lib/planfile/MeshAxes.h"
#include "mlir/IR/BuiltinOps.h"

#include <random>

namespace llmc::test {

// What goes in, and what must come out.
struct Run {
  planfile::MeshSizes mesh;
  parallel::NamedTensors weights; // by source
  parallel::NamedTensors inputs, outputs;
};

// Runs the module `text`, which stands at border `from`, in double (in issue order and in drawn
// orders; partitioned functions too) and in float by the plan file on all ranks.
void checkMachines(mlir::MLIRContext &context, const std::string &text, Phase from, const Run &run,
                   const std::string &what);

// Numbers in [-1, 1).
graph::Tensor drawTensor(std::vector<int64_t> shape, std::mt19937 &random);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_SCHEDULE_MACHINES_H
