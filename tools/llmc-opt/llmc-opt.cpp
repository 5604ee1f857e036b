// mlir-opt with the dialects and passes of llmc.
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/2-train/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, llmc::graph::GraphDialect>();
  llmc::registerTrainPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "llmc's optimizer driver\n", registry));
}
