#include "passes/1-raise/RaiseAttention/KnownMask.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;
using namespace llmc::support;

// Bounds the ops that a definition reads, each as often as it is used.
static constexpr int kMostReads = 256;

// Returns the shape of a value; that of a number has one dim, of 1.
static Sizes sizesOf(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return shape.empty() ? Sizes{1} : Sizes(shape.begin(), shape.end());
}

static Sizes rowMajor(const Sizes &shape) {
  Sizes strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

//===-- Numbers ---------------------------------------------------------------===//

// Rounds to an element type as denseOf does; only f32, f64, i64 and i1 occur in masks.
static double roundedTo(Type element, double x) {
  if (element.isF32())
    return static_cast<float>(x);
  if (element.isInteger(1))
    return x != 0;
  return element.isF64() ? x : std::trunc(x);
}

static bool isReadable(Type element) {
  return element.isF32() || element.isF64() || element.isInteger(64) || element.isInteger(1);
}

static std::optional<Combine> kindOf(Operation *op) {
  if (auto compare = dyn_cast<CompareOp>(op))
    switch (compare.getPredicate()) {
    case Predicate::eq: return Combine::Equal;
    case Predicate::ne: return Combine::NotEqual;
    case Predicate::lt: return Combine::Less;
    case Predicate::le: return Combine::LessOrEqual;
    case Predicate::gt: return Combine::Greater;
    case Predicate::ge: return Combine::GreaterOrEqual;
    }
  if (isa<CastOp>(op))
    return elementOf(op->getResult(0)).isInteger(1) ? Combine::IsNotZero : Combine::Copy;
  return isa<SelectOp>(op)         ? std::optional(Combine::Select)
         : isa<AddOp>(op)          ? std::optional(Combine::Add)
         : isa<SubOp>(op)          ? std::optional(Combine::Subtract)
         : isa<MulOp>(op)          ? std::optional(Combine::Multiply)
         : isa<NegOp>(op)          ? std::optional(Combine::Negate)
         : isa<MinimumOp>(op)      ? std::optional(Combine::Minimum)
         : isa<MaximumOp>(op)      ? std::optional(Combine::Maximum)
         : isa<AndOp, OrOp, NotOp>(op) ? std::optional(Combine::Other)
                                   : std::nullopt;
}

static double computed(Operation *op, Combine kind, const std::vector<double> &x) {
  switch (kind) {
  case Combine::Equal: return x[0] == x[1];
  case Combine::NotEqual: return x[0] != x[1];
  case Combine::Less: return x[0] < x[1];
  case Combine::LessOrEqual: return x[0] <= x[1];
  case Combine::Greater: return x[0] > x[1];
  case Combine::GreaterOrEqual: return x[0] >= x[1];
  case Combine::Select: return x[0] != 0 ? x[1] : x[2];
  case Combine::Add: return x[0] + x[1];
  case Combine::Subtract: return x[0] - x[1];
  case Combine::Multiply: return x[0] * x[1];
  case Combine::Negate: return -x[0];
  case Combine::Minimum: return std::isnan(x[1]) || x[1] < x[0] ? x[1] : x[0];
  case Combine::Maximum: return std::isnan(x[1]) || x[1] > x[0] ? x[1] : x[0];
  case Combine::Copy: return x[0];
  case Combine::IsNotZero: return x[0] != 0;
  case Combine::Other: break;
  }
  return isa<AndOp>(op)  ? x[0] != 0 && x[1] != 0
         : isa<OrOp>(op) ? x[0] != 0 || x[1] != 0
                         : x[0] == 0;
}

//===-- Definitions -----------------------------------------------------------===//

namespace {

class Reader {
public:
  // Returns the definition of `value`, and appends what it consists of to the key; null if it has
  // none.
  DefinitionRef read(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || ++reads > kMostReads || !isReadable(elementOf(value)) ||
        typeOf(value).getNumElements() == 0)
      return {};
    if (isa<ConstantOp>(op))
      return readConstant(value);
    append(op->getName().getAsOpaquePointer(), op->getPropertiesAsAttribute().getAsOpaquePointer(),
           op->getDiscardableAttrDictionary().getAsOpaquePointer(),
           value.getType().getAsOpaquePointer());
    if (auto iota = dyn_cast<IotaOp>(op))
      return readIota(iota);
    if (auto kind = kindOf(op))
      return readCombined(op, *kind);
    if (!isa<BroadcastOp, ReshapeOp, TransposeOp>(op))
      return {};
    DefinitionRef operand = read(op->getOperand(0));
    return operand ? moved(op, operand) : operand;
  }

  std::string key;

private:
  int reads = 0;

  template <class... Ts> void append(Ts... pointers) {
    ((key += std::to_string(reinterpret_cast<uintptr_t>(pointers)) + " "), ...);
  }

  DefinitionRef readConstant(Value value) {
    DenseElementsAttr dense = denseValueOf(value);
    if (!dense)
      return {};
    append(dense.getAsOpaquePointer());
    Sizes shape = sizesOf(value), strides = rowMajor(shape);
    for (size_t d = 0; d < shape.size(); ++d)
      if (dense.isSplat() || shape[d] == 1)
        strides[d] = 0;
    auto elements = std::make_shared<Elements>(dense);
    return defineStored(shape, strides, [elements](int64_t i) { return (*elements)[i]; });
  }

  static DefinitionRef readIota(IotaOp op) {
    if (op.getOffset())
      return {};
    Sizes shape = sizesOf(op.getResult()), strides(shape.size(), 0);
    strides[op.getDim()] = 1;
    return defineStored(shape, strides, [](int64_t i) { return double(i); });
  }

  DefinitionRef readCombined(Operation *op, Combine kind) {
    Sizes shape = sizesOf(op->getResult(0));
    std::vector<DefinitionRef> operands;
    for (Value operand : op->getOperands()) {
      DefinitionRef next = read(operand);
      if (!next)
        return {};
      operands.push_back(defineBroadcast(next, shape));
    }
    Type element = elementOf(op->getResult(0));
    Combination how;
    how.kind = kind;
    how.most = element.isF32() ? 0x1p24 : element.isInteger(1) ? 1 : kMostWhole;
    how.least = element.isInteger(1) ? 0 : -how.most;
    how.compute = [op, kind, element](const std::vector<double> &numbers) -> Result<double> {
      return roundedTo(element, computed(op, kind, numbers));
    };
    return defineCombined(how, operands);
  }

  // Returns the view of `operand` that a movement is; null for a reshape that merges or cuts dims.
  static DefinitionRef moved(Operation *op, DefinitionRef operand) {
    Sizes shape = sizesOf(op->getResult(0));
    if (isa<BroadcastOp>(op))
      return defineBroadcast(operand, shape);
    std::vector<ViewedDim> dims(operand->shape().size());
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        dims[dim] = {0, int(i), 1};
      return defineView(operand, shape, dims);
    }
    size_t next = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      dims[d] = {0, -1, 1};
      if (operand->shape()[d] == 1)
        continue;
      while (next < shape.size() && shape[next] == 1)
        ++next;
      if (next == shape.size() || shape[next] != operand->shape()[d])
        return {};
      dims[d].dim = int(next++);
    }
    return defineView(operand, shape, dims);
  }
};

} // namespace

std::optional<KnownMask> raise::knownMask(Value value) {
  Reader reader;
  DefinitionRef elements = reader.read(value);
  if (!elements)
    return std::nullopt;
  return KnownMask{elements, reader.key, elementOf(value).isInteger(1)};
}

KnownMask raise::scaled(const KnownMask &mask, double factor, double floor) {
  Combination how;
  how.compute = [factor, floor](const std::vector<double> &x) -> Result<double> {
    return double(static_cast<float>(std::max(x[0] * factor, floor)));
  };
  return {defineCombined(how, {mask.elements}),
          mask.key + "* " + std::to_string(factor) + " " + std::to_string(floor), mask.logical};
}

KnownMask raise::negated(const KnownMask &mask) {
  Combination how;
  how.compute = [](const std::vector<double> &x) -> Result<double> { return double(x[0] == 0); };
  return {defineCombined(how, {mask.elements}), mask.key + "!", mask.logical};
}

//===-- Lines -----------------------------------------------------------------===//

bool raise::forEachLine(const KnownMask &mask,
                        llvm::function_ref<bool(int64_t row, const Runs &line)> visit) {
  const Definition &elements = *mask.elements;
  size_t rank = elements.shape().size();
  Sizes counts, index(rank, 0);
  int64_t lines = 1;
  for (size_t d = 0; d < rank; ++d) {
    counts.push_back(d + 1 < rank && elements.varies(d) ? elements.shape()[d] : 1);
    lines *= counts.back();
  }
  Runs line;
  for (int64_t n = 0; n < lines; ++n) {
    int64_t rest = n;
    for (size_t d = rank; d-- > 0; rest /= counts[d])
      index[d] = rest % counts[d];
    line.clear();
    if (!elements.line(index, rank - 1, line) || !visit(rank > 1 ? index[rank - 2] : 0, line))
      return false;
  }
  return true;
}

bool raise::allElements(const KnownMask &mask, llvm::function_ref<bool(double)> test) {
  return forEachLine(mask, [&](int64_t, const Runs &line) {
    int64_t begin = 0;
    for (const Run &run : line) {
      for (int64_t k = 0, different = run.step == 0 ? 1 : run.end - begin; k < different; ++k)
        if (!test(Piece{run.first, run.step}.at(k)))
          return false;
      begin = run.end;
    }
    return true;
  });
}
