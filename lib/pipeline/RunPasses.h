// Runs passes such that none fails without an error. Test:
// test/passes/5-schedule/RunPassesTest.cpp.
#ifndef LLMC_LIB_PIPELINE_RUNPASSES_H
#define LLMC_LIB_PIPELINE_RUNPASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include <atomic>
#include <mutex>

namespace llmc {

// Runs pm on the module. Adds an error that names the pass if one fails without an error of its
// own.
inline mlir::LogicalResult runPasses(mlir::PassManager &pm, mlir::ModuleOp module) {
  struct Failed {
    std::mutex mutex;
    std::string pass; // the first, which is the innermost
  };
  struct Watch : mlir::PassInstrumentation {
    explicit Watch(std::shared_ptr<Failed> failed) : failed(std::move(failed)) {}
    void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *) override {
      std::lock_guard<std::mutex> lock(failed->mutex);
      llvm::StringRef name = pass->getArgument().empty() ? pass->getName() : pass->getArgument();
      if (failed->pass.empty())
        failed->pass = name.str();
    }
    std::shared_ptr<Failed> failed;
  };
  auto failed = std::make_shared<Failed>();
  std::atomic<bool> said = false;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      said = true;
    return mlir::failure(); // leaves printing to the outer handlers
  });
  pm.addInstrumentation(std::make_unique<Watch>(failed));
  if (mlir::succeeded(pm.run(module)))
    return mlir::success();
  if (!said)
    module.emitError() << "pass '" << failed->pass << "' failed without saying why, which is a bug of llmc";
  return mlir::failure();
}

} // namespace llmc

#endif // LLMC_LIB_PIPELINE_RUNPASSES_H
