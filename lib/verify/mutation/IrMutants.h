// Lists small faults of the IR at a phase boundary as a pass might make them, one edit at one op:
// a constant one per cent off, another kind of reduction, a transposed dimension, exchanged
// operands, an op left out, a value with another sharding. Tested by test/verify/ir and
// test/numerics/ir_mutation.py.
#ifndef LLMC_LIB_VERIFY_MUTATION_IRMUTANTS_H
#define LLMC_LIB_VERIFY_MUTATION_IRMUTANTS_H

#include "lib/options/Phases.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace llmc::verify {

// Identifies an edit by its position and change, so that it can be made in every compilation, as
// by a faulty pass.
struct IrMutant {
  Phase phase = Phase::Raise;
  std::string family;   // "constant", "attribute", "operands", "dropped", "sharding", ...
  std::string function; // symbol; empty: an op of the module itself
  std::string op;       // "graph.layer_norm"
  unsigned ordinal = 0; // index among the ops of that name in the function, in program order
  std::string change;   // "eps 1.000000e-05 -> 1.010000e-05"

  // Returns an identifier such as "train:micro:graph.reduce#3: kind sum -> max".
  std::string id() const;
};

// Returns all mutants, in a fixed order. Omits an edit after which the op no longer verifies by
// itself (or, at boundary shard, its annotations do not): every verifier would find it.
std::vector<IrMutant> listIrMutants(mlir::ModuleOp module, Phase phase);

// Makes the edit in `module`. Returns false if the module has no such op or the op no such edit.
bool apply(const IrMutant &mutant, mlir::ModuleOp module);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_IRMUTANTS_H
