// Lists the distinct launches and matrix products of a plan. Tested by
// test/verify/kernels/ShapesTest.cpp.
#ifndef LLMC_LIB_VERIFY_KERNELS_LAUNCHES_H
#define LLMC_LIB_VERIFY_KERNELS_LAUNCHES_H

#include "dialects/plan/Plan.h"
#include "lib/planfile/Program.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace llmc::verify {

// Represents all launches of one kernel with the same body, scalars and operand layout.
struct DistinctLaunch {
  plan::LaunchOp op;
  const planfile::LaunchT *launch;
  // Lists the distinct scalar arguments of the first, middle and last rank of the stage.
  std::vector<std::vector<int64_t>> scalars;
  std::string name; // kernel, sizes, and source op of the first such launch
};

// Represents all matrix products of equal sizes, strides, alignment and form of routing.
struct DistinctProduct {
  const planfile::MatmulT *matmul;
  std::string name;
};

// Owns both lists; `op` and pointers refer to the module and program listed.
struct DistinctWork {
  std::vector<DistinctLaunch> launches;
  std::vector<DistinctProduct> products;
};

// Returns the launches and products of `module`, the plan after emission, from which `program`
// was written.
DistinctWork listWork(mlir::ModuleOp module, const planfile::ProgramT &program);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_LAUNCHES_H
