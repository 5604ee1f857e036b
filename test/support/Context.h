// Provides an MLIRContext with the dialects of the compiler.
#ifndef LLMC_TEST_SUPPORT_CONTEXT_H
#define LLMC_TEST_SUPPORT_CONTEXT_H

#include "lib/pipeline/Pipeline.h"
#include "mlir/IR/MLIRContext.h"

namespace llmc::test {

inline mlir::DialectRegistry allDialects() {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

// Represents a context in which all dialects of the compiler are loaded.
struct LoadedContext : mlir::MLIRContext {
  explicit LoadedContext(Threading threading = Threading::ENABLED)
      : MLIRContext(allDialects(), threading) {
    loadAllAvailableDialects();
  }
};

} // namespace llmc::test

#endif // LLMC_TEST_SUPPORT_CONTEXT_H
