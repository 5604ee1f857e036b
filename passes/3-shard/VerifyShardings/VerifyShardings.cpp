// Checks the annotations at the end of phase 3: rules A1 to A7, S1 and S2.
#include "passes/3-shard/Passes.h"

#include "dialects/parallel/Annotations.h"

namespace llmc {
#define GEN_PASS_DEF_VERIFYSHARDINGS
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {
struct VerifyShardings : impl::VerifyShardingsBase<VerifyShardings> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool ok = succeeded(verifyAnnotations(module));
    if (func::FuncOp func = getStepFunction(module))
      func.walk([&](graph::RepeatOp op) { // S1
        auto layers = op->getAttrOfType<DenseI64ArrayAttr>(kLayers);
        int64_t sum = 0;
        for (int64_t n : layers ? layers.asArrayRef() : ArrayRef<int64_t>())
          sum += n;
        if (sum == int64_t(op.getCount()))
          return;
        op.emitOpError("S1: layers of the stages sum to ") << sum << ", expected " << op.getCount();
        ok = false;
      });
    module.walk([&](graph::GraphOpInterface op) { // S2
      FailureOr<FactorAxes> factors = readFactorAxes(op);
      if (failed(factors)) {
        ok = false;
        return;
      }
      auto origin = op->getAttrOfType<DictionaryAttr>(kOrigin);
      for (const Axes &axes : *factors)
        for (StringAttr axis : axes)
          if (!origin || !origin.get(axis)) {
            op->emitOpError("S2: axis ") << axis << " has no origin";
            ok = false;
          }
    });
    if (!ok)
      signalPassFailure();
  }
};
} // namespace
} // namespace llmc
