// Checks what arguments and results of the stages' functions are bound to. Tests:
// test/passes/4-partition/verify-partition.mlir, verify-partition-invalid.mlir.
#ifndef LLMC_PASSES_PARTITION_VERIFYPARTITION_BINDINGS_H
#define LLMC_PASSES_PARTITION_VERIFYPARTITION_BINDINGS_H

#include "dialects/parallel/Annotations.h"
#include "llvm/ADT/MapVector.h"

namespace llmc {

// Identifies an argument or result of a stage's function, with its attributes.
struct Binding {
  mlir::func::FuncOp func;
  unsigned index;
  bool isResult;

  mlir::Attribute get(llvm::StringRef name) const;
  mlir::Type type() const;
  int64_t stage() const;        // of the mesh
  int64_t virtualStage() const;
  llvm::StringRef procedure() const;
  // Formats the binding for errors: "argument 3 of @forward_0".
  std::string text() const;
  mlir::InFlightDiagnostic error() const;
};

// Returns all arguments and results of the functions of the module.
llvm::SmallVector<Binding> collectBindings(mlir::ModuleOp module);

// Checks rule C5; C6 and C7; C8, C9 and C10; C11 (of an inference) of the pass description. Each
// emits an error for every breach that it finds, and fails if there is one.
mlir::LogicalResult verifyBound(llvm::ArrayRef<Binding> bindings);
mlir::LogicalResult verifyPairs(llvm::ArrayRef<Binding> bindings, int64_t stages);
mlir::LogicalResult verifyStates(mlir::ModuleOp module, llvm::ArrayRef<Binding> bindings);
mlir::LogicalResult verifyOutputs(mlir::ModuleOp module, llvm::ArrayRef<Binding> bindings);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_VERIFYPARTITION_BINDINGS_H
