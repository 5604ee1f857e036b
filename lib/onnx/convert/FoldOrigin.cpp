// Tracks the origins of constants that are folded from stored floats, and computes them in every
// step after all if they are learned: 1 + w of a norm, -exp(w) of a decay.
#include "lib/onnx/convert/Conversion.h"

#include "lib/onnx/bind/Tables.h"
#include "llvm/ADT/StringSet.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;

static bool moves(llvm::StringRef op) {
  static const llvm::StringSet<> ops = {"Reshape",   "Squeeze", "Unsqueeze", "Flatten",
                                        "Transpose", "Expand",  "Cast",      "Slice",
                                        "Concat",    "Gather",  "Identity"};
  return ops.contains(op);
}

static bool computes(llvm::StringRef op) {
  static const llvm::StringSet<> ops = {
      "Add",      "Sub",  "Mul",        "Div",        "Neg",     "Exp",
      "Log",      "Sqrt", "Reciprocal", "Pow",        "Sigmoid", "Tanh",
      "Softplus", "Relu", "ReduceSum",  "ReduceMean", "ReduceL2"};
  return ops.contains(op);
}

static const Constant *constantOf(const Operand &operand) {
  auto *constant = std::get_if<KnownConstant>(&operand);
  return constant ? constant->get() : nullptr;
}

void llmc::onnximport::setOrigin(const Node &node, llvm::ArrayRef<const Operand *> operands,
                                 Operand &result) {
  const Constant *folded = constantOf(result);
  if (!folded || !folded->held.isFloat())
    return;
  bool again = moves(node.op()) || computes(node.op());
  auto origin =
      std::make_shared<FoldOrigin>(FoldOrigin{node, {}, {}, again && computes(node.op()), {}});
  for (const Operand *operand : operands) {
    if (again)
      origin->operands.push_back(operand ? *operand : Operand());
    if (!operand)
      continue;
    const Constant *constant = constantOf(*operand);
    if (auto *view = std::get_if<View>(operand)) {
      origin->allTensors.insert(view->tensor);
      if (again)
        origin->tensors.insert(view->tensor);
    }
    if (!constant || !constant->origin)
      continue;
    const FoldOrigin &before = *constant->origin;
    origin->allTensors.insert(before.allTensors.begin(), before.allTensors.end());
    if (again)
      origin->tensors.insert(before.tensors.begin(), before.tensors.end());
    origin->computes |= again && before.computes;
  }
  if (origin->allTensors.empty())
    return;
  if (origin->tensors.empty()) // it cannot be computed again
    origin->operands.clear();
  auto made = std::make_shared<Constant>(*folded);
  made->origin = std::move(origin);
  result = KnownConstant(std::move(made));
}

std::set<unsigned> NodeAdaptor::storedFloats(size_t i) const {
  if (const View *v = view(i))
    return {v->tensor};
  const Constant *constant = known(i);
  return constant && constant->origin ? constant->origin->tensors : std::set<unsigned>();
}

// Checks whether the dims larger than 1 are the last two of `other`, and no dim repeats: the values
// have a row of their own for each token.
static bool isOfRows(const HostTensor &values, llvm::ArrayRef<int64_t> other) {
  auto wide = [](llvm::ArrayRef<int64_t> shape) {
    return shape.drop_while([](int64_t d) { return d == 1; });
  };
  llvm::ArrayRef<int64_t> own = wide(values.shape);
  return own.size() == 2 && other.size() > 2 && own == other.take_back(2) &&
         wide(collapseEqualDims(values).shape) == own;
}

// Checks whether exactly one dim is larger than 1, and it is a dim of channels in `other`: neither
// dim 0 nor of size `tokens`.
static bool isOfChannels(llvm::ArrayRef<int64_t> own, llvm::ArrayRef<int64_t> other,
                         int64_t tokens) {
  int64_t wide = llvm::count_if(own, [](int64_t d) { return d > 1; });
  own = own.drop_while([](int64_t d) { return d == 1; });
  return wide == 1 && own.size() < other.size() && own.front() != tokens &&
         own.front() == other[other.size() - own.size()];
}

bool NodeAdaptor::isCombinedWithActivation(size_t i, size_t other) const {
  std::set<unsigned> tensors = storedFloats(i);
  auto *computed = has(other) ? std::get_if<ComputedValue>(operands_[other]) : nullptr;
  if (tensors.empty() || !computed || !parameters_.mayLearn(tensors) ||
      !parameters_.activations().holds(computed->value))
    return false;
  const View *v = view(i);
  if (v && parameters_.names().readsOneParameter(*node.proto))
    return true;
  const Constant *constant = known(i);
  HostTensor values = v ? readView(model_, *v) : constant->held;
  if (isComputedTable(values))
    return false;
  if (llvm::all_of(tensors, [&](unsigned tensor) { return parameters_.names().isState(tensor); }))
    return true;
  if (*countElements(shape(i)) == 1)
    return false;
  return (constant && constant->origin->computes) ||
         isOfChannels(shape(i), shape(other), parameters_.sequence()) ||
         (node.op() == "Add" && !parameters_.names().knows(*node.proto) &&
          isOfRows(values, shape(other)));
}

Value NodeAdaptor::compute(const std::shared_ptr<const FoldOrigin> &origin, UseKind role) {
  if (origin->tensors.empty() || !parameters_.mayLearn(origin->tensors))
    return {};
  if (Value made = constants_.computed(origin))
    return made;
  std::vector<Operand> operands = origin->operands;
  std::vector<const Operand *> pointers;
  for (Operand &operand : operands) {
    const Constant *constant = constantOf(operand);
    if (constant && constant->origin)
      if (Value value = compute(constant->origin, role))
        operand = ComputedValue(value);
    bool missing = std::holds_alternative<std::monostate>(operand);
    pointers.push_back(missing ? nullptr : &operand);
  }
  NodeAdaptor call(origin->node, pointers, model_, parameters_, constants_, build.builder);
  call.defaultRole_ = role;
  auto results = convertCall(call);
  auto *result = results ? std::get_if<ComputedValue>(&results->front()) : nullptr;
  return result ? constants_.computed(origin) = result->value : Value();
}

Value NodeAdaptor::constantValue(const Constant &constant, llvm::ArrayRef<int64_t> shape) {
  HostTensor held = constant.held;
  held.shape.assign(shape.begin(), shape.end());
  Value value = constants_.get(held, build.loc);
  if (constant.origin)
    parameters_.noteFolded(value, constant.origin->allTensors);
  return value;
}
