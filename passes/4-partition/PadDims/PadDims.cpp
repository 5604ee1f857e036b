#include "passes/4-partition/PadDims/DimClasses.h"
#include "passes/4-partition/PadDims/Neutral.h"
#include "passes/4-partition/Passes.h"

namespace llmc {
#define GEN_PASS_DEF_PADDIMS
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

static RankedTensorType withSize(Type type, int64_t dim, int64_t size) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[dim] = size;
  return RankedTensorType::get(shape, tensor.getElementType());
}

static LogicalResult refuse(const DimClass &c) {
  int64_t below = c.size / c.multiple * c.multiple, above = below + c.multiple;
  Location loc = c.states.empty() ? c.dims.front().first.getLoc() : c.states.front().first->getLoc();
  auto diag = emitError(loc) << "D1: ";
  if (c.states.empty())
    diag << "dimension " << c.dims.front().second << " of " << c.dims.front().first.getType();
  else
    diag << "dimension " << c.states.front().second << " of state @"
         << SymbolTable::getSymbolName(c.states.front().first).getValue();
  diag << " has " << c.size << " elements, which " << c.multiple
       << " ranks cannot share evenly; the nearest valid sizes are ";
  if (below > 0)
    diag << below << " and ";
  return diag << above;
}

static void growState(graph::StateOp state, int64_t dim, int64_t size) {
  Builder builder(state.getContext());
  auto type = cast<RankedTensorType>(state.getType());
  if (!state.getValidShape())
    state.setValidShapeAttr(builder.getI64ArrayAttr(type.getShape()));
  state.setTypeAttr(TypeAttr::get(withSize(type, dim, size)));
}

// Updates the sizes that the value's defining op has in attributes: constants and slices.
static void growAttributes(Value value, int64_t dim, int64_t from, int64_t to) {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op)) {
    auto splat = cast<DenseElementsAttr>(constant.getValue());
    constant.setValueAttr(splat.resizeSplat(withSize(splat.getType(), dim, to)));
  }
  if (auto slice = dyn_cast_or_null<graph::SliceOp>(op)) {
    SmallVector<int64_t> limits(slice.getLimits());
    if (limits[dim] == from)
      limits[dim] = to;
    slice.setLimits(limits);
  }
}

static void grow(const DimClass &c, int64_t size, Paddings &paddings) {
  for (auto [value, dim] : c.dims) {
    growAttributes(value, dim, c.size, size);
    value.setType(withSize(value.getType(), dim, size));
    paddings[value].push_back({dim, c.size});
  }
  for (auto [state, dim] : c.states)
    growState(cast<graph::StateOp>(state), dim, size);
}

// Records the shape without padding of every padded output, for its reader to crop.
static void markOutputs(func::FuncOp func, const Paddings &paddings) {
  for (OpOperand &use : func.getBody().front().getTerminator()->getOpOperands()) {
    auto found = paddings.find(use.get());
    if (found == paddings.end() || !func.getResultAttr(use.getOperandNumber(), kOutput))
      continue;
    SmallVector<int64_t> shape(cast<RankedTensorType>(use.get().getType()).getShape());
    for (Padding padding : found->second)
      shape[padding.dim] = padding.valid;
    func.setResultAttr(use.getOperandNumber(), kValidShape,
                       DenseI64ArrayAttr::get(func.getContext(), shape));
  }
}

namespace {
struct PadDims : llmc::impl::PadDimsBase<PadDims> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    if (!mesh) {
      module.emitError("no mesh: the module needs the attribute `parallel.mesh`");
      return signalPassFailure();
    }
    bool ok = true;
    Paddings paddings;
    for (const DimClass &c : collectDimClasses(module, mesh)) {
      if (c.size % c.multiple == 0)
        continue;
      if (c.isFixed || !c.mayGrow) {
        ok = false;
        (void)refuse(c);
        continue;
      }
      grow(c, (c.size / c.multiple + 1) * c.multiple, paddings);
      ++numPadded;
    }
    if (!ok)
      return signalPassFailure();
    if (paddings.empty())
      return;
    for (auto func : module.getOps<func::FuncOp>()) {
      Block &body = func.getBody().front();
      func.setFunctionType(FunctionType::get(func.getContext(), body.getArgumentTypes(),
                                             body.getTerminator()->getOperandTypes()));
      markOutputs(func, paddings);
      FailureOr<unsigned> masks = maskReductions(func, paddings);
      if (failed(masks))
        return signalPassFailure();
      numMasked += *masks;
    }
  }
};
} // namespace
