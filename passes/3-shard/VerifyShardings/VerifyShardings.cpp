// Checks the annotations at the end of phase 3: rules A1 to A7 and S1 to S3.
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
    ok &= succeeded(verifyFlatAxes(module));
    if (!ok)
      signalPassFailure();
  }

  // Checks S3.
  static LogicalResult verifyFlatAxes(ModuleOp module) {
    MeshAttr mesh = getMesh(module);
    llvm::DenseMap<Attribute, ArrayAttr> common; // by sharding
    for (auto state : module.getOps<graph::StateOp>()) {
      auto axes = state->getAttrOfType<ArrayAttr>(kFlatAxes);
      if (!axes)
        continue;
      auto isShared = [&](Attribute axis) {
        auto name = cast<StringAttr>(axis);
        return mesh && mesh.getSize(name.getValue()) > 1 &&
               (mesh.isOf(name, planfile::AxisRole::Data) ||
                mesh.isOf(name, planfile::AxisRole::Context));
      };
      auto sharding = state->getAttrOfType<ShardingAttr>(kSharding);
      ArrayAttr &others = common.try_emplace(sharding, axes).first->second;
      auto isCut = [&](Attribute axis) {
        return sharding && llvm::any_of(getAxes(sharding), [&](const Axes &dim) {
                 return llvm::is_contained(dim, cast<StringAttr>(axis));
               });
      };
      llvm::SmallPtrSet<Attribute, 2> distinct(axes.begin(), axes.end());
      if (axes.empty() || axes != others || distinct.size() != axes.size() ||
          !llvm::all_of(axes, isShared) || llvm::any_of(axes, isCut))
        return state.emitOpError("S3: is shared out over ")
               << axes << ", expected the axes of data-parallel ranks that do not cut it, each once, the same for "
               << "all states that are cut alike";
    }
    return success();
  }
};
} // namespace
} // namespace llmc
