// Why a fault of the IR changes nothing, told from the IR and never from a run.
#ifndef LLMC_LIB_VERIFY_MUTATION_IREQUIVALENCE_H
#define LLMC_LIB_VERIFY_MUTATION_IREQUIVALENCE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace llmc::verify {

// The reason, or empty if none is known. `before` and `after` are the module without and with
// the change; both are used up. Both are the same without operations whose results nobody
// needs, or once equal computations are done once.
std::string irEquivalence(mlir::ModuleOp before, mlir::ModuleOp after);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_IREQUIVALENCE_H
