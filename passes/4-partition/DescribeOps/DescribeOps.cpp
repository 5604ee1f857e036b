#include "dialects/graph/Repeat.h"
#include "passes/4-partition/Origin.h"
#include "passes/4-partition/Passes.h"

namespace llmc {
#define GEN_PASS_DEF_DESCRIBEOPS
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

// Records the names of an op's nodes and, if it stands for several layers, the layer of each.
static void setNames(Operation *op, NamedAttrList &fields) {
  Builder b(op->getContext());
  SmallVector<Attribute> names;
  SmallVector<int64_t> layers;
  auto fused = dyn_cast<FusedLoc>(op->getLoc());
  auto mark = fused ? dyn_cast_or_null<StringAttr>(fused.getMetadata()) : StringAttr();
  if (mark && mark.getValue() == graph::kLayersLocation) {
    for (auto [layer, part] : llvm::enumerate(fused.getLocations()))
      for (StringAttr name : getNodeNames(part)) {
        names.push_back(name);
        layers.push_back(layer);
      }
    fields.set("layers", b.getDenseI64ArrayAttr(layers));
  } else {
    for (StringAttr name : getNodeNames(op->getLoc()))
      names.push_back(name);
  }
  fields.set("names", b.getArrayAttr(names));
}

static Attribute describe(Operation *op, const SymbolTable &symbols) {
  Builder b(op->getContext());
  NamedAttrList fields;
  setNames(op, fields);
  fields.set("op", b.getStringAttr(op->getName().getStringRef()));
  if (op->hasAttr(kBackward))
    fields.set("backward", b.getUnitAttr());
  if (auto origin = op->getAttrOfType<DictionaryAttr>(kOrigin))
    fields.set("cuts", origin);
  SmallVector<Attribute> operands, results;
  for (OpOperand &use : op->getOpOperands())
    operands.push_back(describeTensor(use.get().getType(), namesOf(use.get(), symbols),
                                      getSharding(use.get()), getRequired(use)));
  for (Value result : op->getResults())
    results.push_back(describeTensor(result.getType(), {}, getSharding(result)));
  fields.set("operands", b.getArrayAttr(operands));
  fields.set("results", b.getArrayAttr(results));
  return fields.getDictionary(op->getContext());
}

namespace {
struct DescribeOps : llmc::impl::DescribeOpsBase<DescribeOps> {
  void runOnOperation() override {
    SmallVector<Attribute> ops;
    SymbolTable symbols(getOperation());
    if (func::FuncOp func = getStepFunction(getOperation()))
      func.walk<WalkOrder::PreOrder>([&](graph::GraphOpInterface op) {
        if (!getNodeName(op->getLoc()).empty())
          ops.push_back(describe(op, symbols));
      });
    getOperation()->setAttr(kOps, ArrayAttr::get(&getContext(), ops));
  }
};
} // namespace
