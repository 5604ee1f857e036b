// Changes a module as a fault of the catalogue would. Each edit returns whether it changed
// anything.
#ifndef LLMC_TEST_VERIFY_CATALOGUE_EDITS_H
#define LLMC_TEST_VERIFY_CATALOGUE_EDITS_H

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <string>

namespace llmc::catalogue {

using Edit = std::function<bool(mlir::ModuleOp)>;

// Identifies the n-th op (from 0, in pre-order) of a name in a function, a procedure, or anywhere
// (""). find() returns it, or null.
struct Where {
  std::string in, op;
  unsigned n = 0;
};
mlir::Operation *find(mlir::ModuleOp module, const Where &where);

// Multiplies a float or an integer attribute by `factor`; of a constant, its elements.
Edit scaleAttribute(Where where, std::string name, double factor);
// Sets an attribute, as MLIR spells it: "#graph.reduce_kind<max>".
Edit setAttribute(Where where, std::string name, std::string value);
Edit removeAttribute(Where where, std::string name);
// Sets an attribute of every op of the name.
Edit setEverywhere(Where where, std::string name, std::string value);
Edit exchangeOperands(Where where, unsigned i, unsigned j);
// Replaces operand i by a result of the op `from`.
Edit takeOperand(Where where, unsigned i, Where from, unsigned result);
// Replaces all uses of a result by an operand, so that the op has no effect.
Edit leaveOut(Where where, unsigned result, unsigned operand);
// Replaces a gather by the rank's own part, once for each rank.
Edit repeatOwnPart(Where where);
// Multiplies a float result by `factor` for all its uses.
Edit scaleResult(Where where, unsigned result, double factor);
// Adds `term` to a float result for all its uses.
Edit shiftResult(Where where, unsigned result, double term);
// Erases the op, whose results must have no uses.
Edit remove(Where where);
// Moves the op after the next one of its block.
Edit postpone(Where where);

} // namespace llmc::catalogue

#endif // LLMC_TEST_VERIFY_CATALOGUE_EDITS_H
