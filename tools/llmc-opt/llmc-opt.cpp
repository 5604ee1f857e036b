// Runs mlir-opt with the dialects and passes of llmc.
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/1-raise/Pipeline.h"
#include "passes/2-train/Passes.h"
#include "passes/3-shard/Passes.h"
#include "passes/4-partition/Passes.h"
#include "passes/5-schedule/Passes.h"
#include "passes/6-emit/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"

// Prints the choices that the pass of this DEBUG_TYPE logs. Stands in for --debug-only, which LLVM
// has only where it was itself built with assertions.
static llvm::cl::opt<std::string> debugPass(
    "llmc-debug-pass", llvm::cl::desc("Print the choices of one pass, named by its flag"),
    llvm::cl::cb<void, const std::string &>([](const std::string &type) {
      llvm::DebugFlag = true;
      llvm::setCurrentDebugType(type.c_str());
    }));

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, llmc::graph::GraphDialect,
                  llmc::parallel::ParallelDialect, llmc::plan::PlanDialect>();
  // Registers the dialects of which kernels consist.
  registry.insert<mlir::arith::ArithDialect, mlir::gpu::GPUDialect, mlir::math::MathDialect,
                  mlir::scf::SCFDialect, mlir::vector::VectorDialect, mlir::LLVM::LLVMDialect>();
  // Registers the passes of MLIR that anyone may want between ours.
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  llmc::registerRaise();
  llmc::registerTrainPasses();
  llmc::registerShardPasses();
  llmc::registerPartitionPasses();
  llmc::registerSchedulePasses();
  llmc::registerEmitPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "llmc's optimizer driver\n", registry));
}
