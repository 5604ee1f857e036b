// What arguments and results of a stage's functions are bound to.
#ifndef LLMC_PASSES_PARTITION_VERIFYPARTITION_BINDINGS_H
#define LLMC_PASSES_PARTITION_VERIFYPARTITION_BINDINGS_H

#include "dialects/parallel/Annotations.h"
#include "llvm/ADT/MapVector.h"

namespace llmc {

struct Binding {
  mlir::func::FuncOp func;
  unsigned index;
  bool isResult;

  mlir::Attribute get(llvm::StringRef name) const;
  mlir::Type type() const;
  int64_t stage() const;
  llvm::StringRef procedure() const;
  // "argument 3 of @forward_0"
  std::string text() const;
  mlir::InFlightDiagnostic error() const;
};

// All arguments and results of the stages' functions.
llvm::SmallVector<Binding> collectBindings(mlir::ModuleOp module);

// C5; C6, C7; C8, C9, C10; C11 (of an inference). All breaches are reported.
mlir::LogicalResult verifyBound(llvm::ArrayRef<Binding> bindings);
mlir::LogicalResult verifyPairs(llvm::ArrayRef<Binding> bindings, int64_t stages);
mlir::LogicalResult verifyStates(mlir::ModuleOp module, llvm::ArrayRef<Binding> bindings);
mlir::LogicalResult verifyOutputs(mlir::ModuleOp module, llvm::ArrayRef<Binding> bindings);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_VERIFYPARTITION_BINDINGS_H
