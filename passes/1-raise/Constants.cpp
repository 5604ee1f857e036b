#include "passes/1-raise/Constants.h"

#include <charconv>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

std::optional<Tensor> raise::constantOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant)
    return std::nullopt;
  Tensor tensor(std::vector<int64_t>(shapeOf(value).begin(), shapeOf(value).end()));
  cast<GraphOpInterface>(constant.getOperation()).evaluate({}, tensor);
  return tensor;
}

std::optional<double> raise::scalarOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant)
    return std::nullopt;
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense || !dense.isSplat())
    return std::nullopt;
  Type element = dense.getElementType();
  if (isa<FloatType>(element)) {
    APFloat number = dense.getSplatValue<APFloat>();
    bool lost;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return number.convertToDouble();
  }
  APInt number = dense.getSplatValue<APInt>();
  return element.isInteger(1) ? double(number.getZExtValue()) : double(number.getSExtValue());
}

DenseElementsAttr raise::denseOf(const Tensor &tensor, RankedTensorType type) {
  Type element = type.getElementType();
  if (auto real = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> numbers;
    numbers.reserve(tensor.data.size());
    for (double value : tensor.data) {
      APFloat number(value);
      bool lost;
      number.convert(real.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      numbers.push_back(number);
    }
    return DenseElementsAttr::get(type, numbers);
  }
  SmallVector<APInt> numbers;
  numbers.reserve(tensor.data.size());
  for (double value : tensor.data)
    numbers.push_back(APInt(element.getIntOrFloatBitWidth(), static_cast<int64_t>(value),
                            /*isSigned=*/true, /*implicitTrunc=*/true));
  return DenseElementsAttr::get(type, numbers);
}

bool raise::isElementwise(Operation *op) {
  return isa_and_nonnull<AddOp, SubOp, MulOp, DivOp, MaximumOp, MinimumOp, AndOp, OrOp, NegOp,
                         ExpOp, LogOp, SqrtOp, RsqrtOp, TanhOp, ErfOp, SigmoidOp, ReluOp, PowOp,
                         GeluOp, NotOp, CompareOp, SelectOp>(op);
}

double raise::asWritten(double value) {
  char text[32];
  float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) != value)
    return value; // never was an f32
  auto end = std::to_chars(text, text + sizeof text, rounded).ptr;
  double written = value;
  std::from_chars(text, end, written);
  return written;
}
