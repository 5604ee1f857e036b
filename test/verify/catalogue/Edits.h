// How a fault of the catalogue changes a module. Each edit says whether it found its place.
#ifndef LLMC_TEST_VERIFY_CATALOGUE_EDITS_H
#define LLMC_TEST_VERIFY_CATALOGUE_EDITS_H

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <string>

namespace llmc::catalogue {

using Edit = std::function<bool(mlir::ModuleOp)>;

// The n-th op of a name in a function, a procedure, or anywhere ("").
struct Where {
  std::string in, op;
  unsigned n = 0;
};
mlir::Operation *find(mlir::ModuleOp module, const Where &where);

// A float or an integer attribute times `factor`; of a constant its elements.
Edit scaleAttribute(Where where, std::string name, double factor);
// An attribute as MLIR spells it: "#graph.reduce_kind<max>".
Edit setAttribute(Where where, std::string name, std::string value);
Edit removeAttribute(Where where, std::string name);
// Of every op of the name.
Edit setEverywhere(Where where, std::string name, std::string value);
Edit exchangeOperands(Where where, unsigned i, unsigned j);
// Operand i is what the op `from` yields.
Edit takeOperand(Where where, unsigned i, Where from, unsigned result);
// An operand in place of a result: the op is left out.
Edit leaveOut(Where where, unsigned result, unsigned operand);
// Uses of a float result see it times `factor`.
Edit scaleResult(Where where, unsigned result, double factor);
// Uses of a float result see it plus `term`.
Edit shiftResult(Where where, unsigned result, double term);
// The op and all that it does, where nobody needs a result.
Edit remove(Where where);
// The op behind the next one of its block.
Edit postpone(Where where);

} // namespace llmc::catalogue

#endif // LLMC_TEST_VERIFY_CATALOGUE_EDITS_H
