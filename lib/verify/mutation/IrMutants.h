// Small faults of the IR at a border, the way a pass would make them: one edit at one op. A
// constant one per cent off, another kind of reduction, a transposed dimension, exchanged
// operands, an op left out, a value that lies elsewhere on the mesh.
#ifndef LLMC_LIB_VERIFY_MUTATION_IRMUTANTS_H
#define LLMC_LIB_VERIFY_MUTATION_IRMUTANTS_H

#include "lib/pipeline/Phases.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace llmc::verify {

// Found again in any module by where it is and what it changes: a faulty pass makes the
// fault in every compilation.
struct IrMutant {
  Phase phase = Phase::Raise;
  std::string family;   // "constant", "attribute", "operands", "dropped", "sharding", ...
  std::string function; // symbol; empty: of the module
  std::string op;       // "graph.layer_norm"
  unsigned ordinal = 0; // among the ops of that name in the function, in program order
  std::string change;   // "eps 1.000000e-05 -> 1.010000e-05"

  // "train:micro:graph.reduce#3: kind sum -> max"
  std::string id() const;
};

// All of them, in a fixed order. An edit after which the op no longer verifies by itself (or
// its annotations do not, at border shard) is not listed: every gate would see it.
std::vector<IrMutant> listIrMutants(mlir::ModuleOp module, Phase phase);

// Makes the edit. False if the module has no such op or the op no such edit.
bool apply(const IrMutant &mutant, mlir::ModuleOp module);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_IRMUTANTS_H
