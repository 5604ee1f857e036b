// Every launch and every product of a plan, once.
#ifndef LLMC_LIB_VERIFY_KERNELS_LAUNCHES_H
#define LLMC_LIB_VERIFY_KERNELS_LAUNCHES_H

#include "dialects/plan/Plan.h"
#include "lib/planfile/Program.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace llmc::verify {

// A launch, for all that run the same kernel on operands that lie alike.
struct DistinctLaunch {
  plan::LaunchOp op;
  const planfile::LaunchT *launch;
  // The kernel's scalars: of the first, a middle and the last rank of the stage.
  std::vector<std::vector<int64_t>> scalars;
  std::string name; // kernel, sizes, and the source op of the first
};

// A product likewise.
struct DistinctProduct {
  const planfile::MatmulT *matmul;
  std::string name;
};

struct DistinctWork {
  std::vector<DistinctLaunch> launches;
  std::vector<DistinctProduct> products;
};

// `module` is the plan after emission, `program` what was written of it.
DistinctWork listWork(mlir::ModuleOp module, const planfile::ProgramT &program);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_LAUNCHES_H
