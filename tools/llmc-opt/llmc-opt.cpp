// mlir-opt with the dialects and passes of llmc.
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/1-raise/Pipeline.h"
#include "passes/2-train/Passes.h"
#include "passes/3-shard/Passes.h"
#include "passes/4-partition/Passes.h"
#include "passes/5-schedule/Passes.h"
#include "passes/6-emit/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, llmc::graph::GraphDialect,
                  llmc::parallel::ParallelDialect, llmc::plan::PlanDialect>();
  llmc::registerRaise();
  llmc::registerTrainPasses();
  llmc::registerShardPasses();
  llmc::registerPartitionPasses();
  llmc::registerSchedulePasses();
  llmc::registerEmitPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "llmc's optimizer driver\n", registry));
}
