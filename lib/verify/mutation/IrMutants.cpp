// Enumerates the ops of a module by function, name and ordinal.
#include "lib/verify/mutation/IrMutants.h"

#include "lib/verify/mutation/IrEdits.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"

#include <map>

using namespace mlir;

namespace llmc::verify {

namespace {

// Calls visit(function, ordinal, op) for each op in program order until it returns true.
template <class F>
void visitOps(ModuleOp module, F visit) {
  std::map<std::pair<std::string, std::string>, unsigned> seen;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == module.getOperation() || isa<func::FuncOp>(op))
      return WalkResult::advance();
    auto func = op->getParentOfType<func::FuncOp>();
    std::string name = func ? func.getSymName().str() : "";
    unsigned ordinal = seen[{name, op->getName().getStringRef().str()}]++;
    return visit(name, ordinal, op) ? WalkResult::interrupt() : WalkResult::advance();
  });
}

} // namespace

std::string IrMutant::id() const {
  return std::string(toString(phase)) + ":" + function + ":" + op + "#" + std::to_string(ordinal) +
         ": " + change;
}

std::vector<IrMutant> listIrMutants(ModuleOp module, Phase phase) {
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
  std::vector<IrMutant> mutants;
  visitOps(module, [&](const std::string &function, unsigned ordinal, Operation *op) {
    for (const IrEdit &edit : editsOf(op, phase))
      if (staysValid(op, edit, phase))
        mutants.push_back({phase, edit.family, function, op->getName().getStringRef().str(),
                           ordinal, edit.change});
    return false;
  });
  return mutants;
}

bool apply(const IrMutant &mutant, ModuleOp module) {
  bool done = false;
  visitOps(module, [&](const std::string &function, unsigned ordinal, Operation *op) {
    if (function != mutant.function || ordinal != mutant.ordinal ||
        op->getName().getStringRef() != mutant.op)
      return false;
    for (const IrEdit &edit : editsOf(op, mutant.phase))
      if (edit.family == mutant.family && edit.change == mutant.change) {
        edit.make(op);
        done = true;
        break;
      }
    return true;
  });
  return done;
}

} // namespace llmc::verify
