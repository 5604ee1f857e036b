#include "passes/1-raise/Constants.h"

#include <charconv>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

//===-- Reading -------------------------------------------------------------===//

raise::Elements::Elements(DenseElementsAttr dense)
    : dense(dense), raw(dense.getRawData().data()), count(dense.getNumElements()),
      splat(dense.isSplat()) {
  Type element = dense.getElementType();
  if (element.isF32())
    read = &Elements::readRaw<float>;
  else if (element.isF64())
    read = &Elements::readRaw<double>;
  else if (element.isInteger(64))
    read = &Elements::readRaw<int64_t>;
  else if (element.isInteger(1))
    read = &Elements::readBool;
  else
    read = &Elements::readOther;
}

double raise::Elements::readBool(int64_t i) const { return *(dense.value_begin<bool>() + i); }

double raise::Elements::readOther(int64_t i) const {
  if (!isa<FloatType>(dense.getElementType()))
    return static_cast<double>((*(dense.value_begin<APInt>() + i)).getSExtValue());
  APFloat number = *(dense.value_begin<APFloat>() + i);
  bool lost;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}

DenseElementsAttr raise::denseValueOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
}

std::optional<Tensor> raise::constantOf(Value value) {
  DenseElementsAttr dense = denseValueOf(value);
  if (!dense)
    return std::nullopt;
  Tensor tensor(std::vector<int64_t>(shapeOf(value).begin(), shapeOf(value).end()));
  Elements elements(dense);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.data[i] = elements[i];
  return tensor;
}

std::optional<double> raise::scalarOf(Value value) {
  DenseElementsAttr dense = denseValueOf(value);
  if (!dense || !dense.isSplat())
    return std::nullopt;
  return Elements(dense)[0];
}

//===-- Writing -------------------------------------------------------------===//

template <typename T> static DenseElementsAttr make(const Tensor &tensor, RankedTensorType type) {
  SmallVector<T, 0> numbers(tensor.data.size());
  llvm::transform(tensor.data, numbers.begin(), [](double x) { return static_cast<T>(x); });
  return DenseElementsAttr::get(type, ArrayRef<T>(numbers));
}

DenseElementsAttr raise::denseOf(const Tensor &tensor, RankedTensorType type) {
  Type element = type.getElementType();
  if (element.isF32())
    return make<float>(tensor, type);
  if (element.isF64())
    return make<double>(tensor, type);
  if (element.isInteger(64))
    return make<int64_t>(tensor, type);
  if (element.isInteger(1))
    return make<bool>(tensor, type);
  if (auto real = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> numbers;
    for (double value : tensor.data) {
      APFloat number(value);
      bool lost;
      number.convert(real.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      numbers.push_back(number);
    }
    return DenseElementsAttr::get(type, numbers);
  }
  SmallVector<APInt> numbers;
  for (double value : tensor.data)
    numbers.push_back(APInt(element.getIntOrFloatBitWidth(), static_cast<int64_t>(value),
                            /*isSigned=*/true, /*implicitTrunc=*/true));
  return DenseElementsAttr::get(type, numbers);
}

//===-- Repeats -------------------------------------------------------------===//

// Returns whether all elements along a dim of `size`, `inner` elements apart, are equal.
static bool repeatsAlong(const raise::Elements &elements, int64_t size, int64_t inner) {
  for (int64_t i = 0; i < elements.size(); ++i)
    if (elements[i] != elements[i - i / inner % size * inner])
      return false;
  return true;
}

DenseElementsAttr raise::dropBroadcastDims(DenseElementsAttr dense) {
  auto type = cast<RankedTensorType>(dense.getType());
  SmallVector<int64_t> shape(type.getShape());
  Elements elements(dense);
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  // Test each dim on all elements: whether it repeats does not depend on which others are dropped.
  SmallVector<int64_t> kept = shape;
  for (auto [size, stride, left] : llvm::zip(shape, strides, kept))
    if (size > 1 && repeatsAlong(elements, size, stride))
      left = 1;
  auto ones = llvm::find_if(kept, [](int64_t size) { return size != 1; }) - kept.begin();
  auto small = RankedTensorType::get(ArrayRef(kept).drop_front(ones), type.getElementType());
  if (kept == shape)
    return dense.reshape(small);
  Tensor values(small.getShape().vec());
  for (int64_t i = 0; i < values.size(); ++i) {
    int64_t from = 0, rest = i;
    for (size_t dim = kept.size(); dim-- > 0; rest /= kept[dim])
      from += rest % kept[dim] * strides[dim];
    values.data[i] = elements[from];
  }
  return denseOf(values, small);
}

//===-- What patterns ask ---------------------------------------------------===//

bool raise::isElementwise(Operation *op) { return op && op->hasTrait<Broadcasting>(); }

double raise::roundTripDecimal(double value) {
  char text[32];
  float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) != value)
    return value; // never was an f32
  auto end = std::to_chars(text, text + sizeof text, rounded).ptr;
  double written = value;
  std::from_chars(text, end, written);
  return written;
}
