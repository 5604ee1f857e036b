// Checks rules K1 to K5 of VerifyEmit.td on what phase 6 gives.
#include "passes/6-emit/Passes.h"

#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/6-emit/Emit.h"
#include "llvm/ADT/StringSet.h"

namespace llmc {
#define GEN_PASS_DEF_VERIFYEMIT
#include "passes/6-emit/Passes.h.inc"

using namespace mlir;
static llvm::StringSet<> namesOf(ModuleOp kernels) {
  llvm::StringSet<> names;
  for (auto kernel : kernels.getOps<func::FuncOp>())
    names.insert(kernel.getSymName());
  return names;
}

// Returns whether a launch may have its rows: none exactly if it writes no element, and otherwise
// at most one for each element of its operands.
static bool rowsFit(plan::LaunchOp op) {
  auto count = [](OperandRange buffers) {
    int64_t elements = 0;
    for (Value buffer : buffers)
      elements += cast<plan::BufferType>(buffer.getType()).getTensor().getNumElements();
    return elements;
  };
  auto rows = static_cast<int64_t>(*op.getRows());
  int64_t written = count(op.getWrites());
  return written == 0 ? rows == 0 : rows > 0 && rows <= written + count(op.getReads());
}

static bool sameKernels(ModuleOp kernels, ModuleOp version) {
  if (!kernels || namesOf(kernels) == namesOf(version))
    return static_cast<bool>(kernels);
  version.emitOpError("K5: defines other kernels than @") << emit::kKernelsModule;
  return false;
}

namespace {
struct VerifyEmit : impl::VerifyEmitBase<VerifyEmit> {
  void runOnOperation() override {
    bool ok = true;
    llvm::StringSet<> used;
    auto kernels = getOperation().lookupSymbol<ModuleOp>(emit::kKernelsModule);
    auto check = [&](Operation *op, std::optional<StringRef> name, StringRef rule) {
      if (name && kernels && kernels.lookupSymbol(*name)) {
        used.insert(*name);
        return;
      }
      op->emitOpError(rule) << ": names no kernel of @" << emit::kKernelsModule << ", got '"
                            << name.value_or("") << "'";
      ok = false;
    };
    for (auto stage : getOperation().getOps<plan::StageOp>()) {
      stage.walk([&](plan::LaunchOp op) {
        check(op, op.getKernel(), "K1");
        if (op.getRows() && rowsFit(op))
          return;
        if (op.getRows())
          op.emitOpError("K2: has ")
              << static_cast<int64_t>(*op.getRows()) << " rows, which do not fit its operands";
        else
          op.emitOpError("K2: has no number of rows");
        ok = false;
      });
      stage.walk([&](plan::MatmulOp op) {
        check(op, op.getAccumulate() ? op.getFallbackAccumulate() : op.getFallback(), "K3");
        // A product of several calls accumulates the later ones into the result of the first.
        if (!op.getAccumulate() && op.getFallbackAccumulate())
          check(op, op.getFallbackAccumulate(), "K3");
      });
      stage.walk([&](plan::GroupedMatmulOp op) {
        check(op, op.getAccumulate() ? op.getFallbackAccumulate() : op.getFallback(), "K3");
      });
    }
    if (kernels)
      for (auto kernel : kernels.getOps<func::FuncOp>())
        if (!used.contains(kernel.getSymName())) {
          kernel.emitOpError("K4: no launch uses this kernel");
          ok = false;
        }
    for (const emit::KernelTarget *target : emit::kCpuTargets)
      if (auto version = getOperation().lookupSymbol<ModuleOp>(emit::kernelsModule(*target)))
        ok &= sameKernels(kernels, version);
    if (!ok)
      signalPassFailure();
  }
};
} // namespace
} // namespace llmc
