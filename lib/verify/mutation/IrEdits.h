// What can go wrong at one op of the graph or parallel dialect.
#ifndef LLMC_LIB_VERIFY_MUTATION_IREDITS_H
#define LLMC_LIB_VERIFY_MUTATION_IREDITS_H

#include "lib/pipeline/Phases.h"
#include "mlir/IR/Operation.h"

#include <functional>
#include <string>
#include <vector>

namespace llmc::verify {

struct IrEdit {
  std::string family, change;
  mlir::StringAttr attribute; // what it replaces, and by what; null: `rewire` instead
  mlir::Attribute value;      // null: the attribute is removed
  std::function<void(mlir::Operation *)> rewire;

  void make(mlir::Operation *op) const;
};

// All edits at an op, in a fixed order.
std::vector<IrEdit> editsOf(mlir::Operation *op, Phase phase);

// Whether the op verifies by itself after the edit; `op` is left as it is.
bool staysValid(mlir::Operation *op, const IrEdit &edit, Phase phase);

// By what else an attribute of an op might have been; with a word for each.
using Variants = std::vector<std::pair<std::string, mlir::Attribute>>;
Variants variantsOf(mlir::Operation *op, mlir::StringAttr name, mlir::Attribute value);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_IREDITS_H
