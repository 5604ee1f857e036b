// Lists what can go wrong at one op of the graph or parallel dialect. Tested by test/verify/ir.
#ifndef LLMC_LIB_VERIFY_MUTATION_IREDITS_H
#define LLMC_LIB_VERIFY_MUTATION_IREDITS_H

#include "lib/options/Phases.h"
#include "mlir/IR/Operation.h"

#include <functional>
#include <string>
#include <vector>

namespace llmc::verify {

// Describes one edit: replaces or removes an attribute, or rewires operands and results.
struct IrEdit {
  std::string family, change;
  mlir::StringAttr attribute; // attribute to replace; null: `rewire` instead
  mlir::Attribute value;      // its new value; null: remove it
  std::function<void(mlir::Operation *)> rewire;

  // Applies the edit to the op.
  void make(mlir::Operation *op) const;
};

// Returns all edits of an op, in a fixed order.
std::vector<IrEdit> editsOf(mlir::Operation *op, Phase phase);

// Adds the edits of element types, if the module has parameters in a low one: a result that loses
// bits, a product or a collective in f32, a state of another type.
void addTypeEdits(mlir::Operation *op, std::vector<IrEdit> &edits);

// Adds the edits of mixtures of experts: routes to another expert, the weight of another choice, rows
// miscounted, others left out where experts have limits. Ops that they add have no shardings: there are
// none at phase boundary shard.
void addRouteEdits(mlir::Operation *op, std::vector<IrEdit> &edits);

// Returns whether the op verifies by itself after the edit; restores `op`.
bool staysValid(mlir::Operation *op, const IrEdit &edit, Phase phase);

// Returns the values that an attribute of an op might have had instead, each with a description.
using Variants = std::vector<std::pair<std::string, mlir::Attribute>>;
Variants variantsOf(mlir::Operation *op, mlir::StringAttr name, mlir::Attribute value);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_IREDITS_H
