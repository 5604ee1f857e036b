#include "passes/4-partition/Passes.h"
#include "passes/4-partition/VerifyPartition/Bindings.h"

namespace llmc {
#define GEN_PASS_DEF_VERIFYPARTITION
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

static LogicalResult verifyOrigin(Operation *op) {
  auto origin = op->getAttrOfType<DictionaryAttr>(kOrigin);
  for (StringRef field : {"node", "rule", "tactic"}) {
    auto text = origin ? origin.getAs<StringAttr>(field) : StringAttr();
    if (!text || text.getValue().empty())
      return op->emitOpError("C2: has no origin: `parallel.origin` needs `") << field << "`";
  }
  return success();
}

static LogicalResult verifyOp(Operation *op, MeshAttr mesh) {
  if (isa<ReshardOp>(op))
    return op->emitOpError("C1: is left over");
  for (StringRef name : {StringRef(kIn), StringRef(kOut), StringRef(kArgs)})
    if (op->hasAttr(name))
      return op->emitOpError("C1: still carries `") << name << "`";
  if (!isa_and_nonnull<ParallelDialect>(op->getDialect()))
    return success();
  Axes axes(op->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>());
  int64_t group = getGroupSize(mesh, axes);
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (collective && collective.getMembers())
    group = collective.getMembers()->size();
  if (group < 2)
    return op->emitOpError("C3: a group of one has nothing to do");
  return collective && collective.communicates() ? verifyOrigin(op) : success();
}

// Checks C4.
static LogicalResult verifyFunctions(ModuleOp module, MeshAttr mesh) {
  int64_t stages = mesh.getSize(planfile::AxisRole::Stages), all = getNumVirtualStages(module);
  SmallVector<std::string> procedures = {"forward"};
  if (!isInference(module))
    procedures.append({"backward", "update"});
  std::map<std::pair<int64_t, std::string>, int> count;
  for (auto func : module.getOps<func::FuncOp>()) {
    auto stage = func->getAttrOfType<IntegerAttr>(kStage);
    auto procedure = func->getAttrOfType<StringAttr>(kProcedure);
    if (!stage || !procedure)
      return func.emitError("C4: @") << func.getSymName() << " is no procedure of a stage";
    ++count[{getVirtualStage(func), procedure.str()}];
  }
  size_t found = 0;
  for (int64_t stage = 0; stage < all; ++stage)
    for (const std::string &procedure : procedures) {
      if (stage >= stages && procedure == "update")
        continue; // one for all chunks
      int n = count[{stage, procedure}];
      found += n;
      if (n != 1)
        return module.emitError(all > stages ? "C4: virtual stage " : "C4: stage ")
               << stage << " has " << n << " functions `" << procedure << "`, expected one";
    }
  size_t functions = llvm::range_size(module.getOps<func::FuncOp>());
  if (found != functions)
    return module.emitError("C4: ") << functions - found << " functions belong to no stage of the mesh";
  return success();
}

namespace {
struct VerifyPartition : llmc::impl::VerifyPartitionBase<VerifyPartition> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    if (!mesh) {
      module.emitError("no mesh: the module needs the attribute `parallel.mesh`");
      return signalPassFailure();
    }
    bool ok = true;
    module.walk([&](Operation *op) { ok &= succeeded(verifyOp(op, mesh)); });
    if (failed(verifyFunctions(module, mesh)))
      return signalPassFailure();
    SmallVector<Binding> bindings = collectBindings(module);
    ok &= succeeded(verifyBound(bindings));
    ok &= succeeded(verifyPairs(bindings, getNumVirtualStages(module)));
    ok &= succeeded(verifyStates(module, bindings));
    if (isInference(module))
      ok &= succeeded(verifyOutputs(module, bindings));
    if (!ok)
      signalPassFailure();
  }
};
} // namespace
