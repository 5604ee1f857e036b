// A pass that fails in silence is reported by name.
#include "lib/pipeline/Loud.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"
#include "test/passes/3-shard/Draws.h"

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
  bool ran = succeeded(runLoudly(passes, *module));
  EXPECT_MSG(ran == (kind == Planted::Passes), "the result of the pass is not that of the run");
  return errors;
}

LLMC_TEST(a_silent_failure_is_reported_by_name) {
  std::string passes = errorsOf(Planted::Passes), loud = errorsOf(Planted::Loud),
              silent = errorsOf(Planted::Silent);
  EXPECT_MSG(passes.empty(), passes);
  EXPECT_MSG(loud == "the reason;", loud);
  EXPECT_MSG(silent == "pass 'planted-pass' failed without saying why, which is a bug of llmc;", silent);
}

} // namespace
} // namespace llmc::test
