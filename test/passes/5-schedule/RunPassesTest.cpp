// A pass that fails in silence is reported by name.
#include "lib/pipeline/RunPasses.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

struct Planted : PassWrapper<Planted, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Planted)
  enum Kind { Passes, Silent, Loud } kind;
  explicit Planted(Kind kind) : kind(kind) {}
  StringRef getArgument() const override { return "planted-pass"; }
  void runOnOperation() override {
    if (kind == Loud)
      getOperation().emitError("the reason");
    if (kind != Passes)
      signalPassFailure();
  }
};

// Returns the diagnostics when `kind` runs inside another module, if it fails as it should.
std::string errorsOf(Planted::Kind kind) {
  MLIRContext context;
  std::string errors;
  ScopedDiagnosticHandler handler(&context,
                                  [&](Diagnostic &diagnostic) { errors += diagnostic.str() + ";"; });
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(&context)));
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  ModuleOp::create(b, module->getLoc());
  PassManager passes(&context);
  passes.addNestedPass<ModuleOp>(std::make_unique<Planted>(kind));
  bool ran = succeeded(runPasses(passes, *module));
  EXPECT_TRUE(ran == (kind == Planted::Passes)) << "the result of the pass is not that of the run";
  return errors;
}

TEST(Loud, ASilentFailureIsReportedByName) {
  std::string passes = errorsOf(Planted::Passes), loud = errorsOf(Planted::Loud),
              silent = errorsOf(Planted::Silent);
  EXPECT_TRUE(passes.empty()) << passes;
  EXPECT_TRUE(loud == "the reason;") << loud;
  EXPECT_TRUE(silent == "pass 'planted-pass' failed without saying why, which is a bug of llmc;")
      << silent;
}

} // namespace
} // namespace llmc::test
