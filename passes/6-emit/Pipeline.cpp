// Phase 6 as prose.
#include "passes/6-emit/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/Passes.h"
#include "passes/6-emit/Passes.h"

namespace llmc {

void buildEmitPipeline(mlir::OpPassManager &pm) {
  // Procedures, table and arena are final: what a launch reads and writes is known.
  pm.addPass(createEmitKernels());
  // Emitters write each address as it comes; the same ones become one. Last,
  // since nothing but object code is made from kernels.
  pm.nest<mlir::ModuleOp>().addNestedPass<mlir::func::FuncOp>(mlir::createCSEPass());
}

} // namespace llmc
