// Decides that a fault of the IR changes nothing, from the IR and never from a run. Tested by
// test/numerics/ir_mutation.py.
#ifndef LLMC_LIB_VERIFY_MUTATION_IREQUIVALENCE_H
#define LLMC_LIB_VERIFY_MUTATION_IREQUIVALENCE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace llmc::verify {

// Returns the reason, or "" if none is known. `before` and `after` are the module without and
// with the change; both are modified. They are equivalent if they are equal after dead code
// elimination, or after common subexpression elimination.
std::string irEquivalence(mlir::ModuleOp before, mlir::ModuleOp after);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_IREQUIVALENCE_H
