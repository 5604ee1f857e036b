// Passes a model file to one of the importers and checks what it makes.
#ifndef LLMC_TEST_FUZZ_MODEL_H
#define LLMC_TEST_FUZZ_MODEL_H

#include "Fuzz.h"
#include "dialects/graph/Graph.h"
#include "lib/options/Options.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <cstdlib>

// Disables user poisoning in ASan: MLIR's own library is not instrumented and shares allocators
// with code that is, so that memory which one poisons the other would use.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }

namespace llmc::test {

// Aborts unless the importer either refuses with exactly one error or returns a valid module, for
// training and for one run with the sizes `dims`.
template <class Importer>
void importModel(std::string_view bytes, Importer importer, int64_t sequence = 0,
                 const std::map<std::string, int64_t> &dims = {}) {
  for (bool infer : {false, true}) {
    CompileOptions options;
    options.infer = infer;
    options.sequence = infer ? 0 : sequence;
    if (infer)
      options.dims = dims;
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect>();
    unsigned errors = 0;
    context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
      errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
      return mlir::success();
    });
    auto module = importer(context, fileWith(bytes), options);
    if (errors != (module ? 0 : 1))
      std::abort();
    if (module && mlir::failed(mlir::verify(*module)))
      std::abort();
  }
}

} // namespace llmc::test

#endif // LLMC_TEST_FUZZ_MODEL_H
