#include "lib/onnx/convert/Conversion.h"

#include "lib/onnx/bind/Tables.h"
#include "llvm/ADT/STLExtras.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

ConvertFunction llmc::onnximport::findConverter(llvm::StringRef op) {
  for (auto find :
       {findArithmeticConverter, findLogicConverter, findActivationConverter, findCastConverter,
        findQuantizeConverter, findMovementConverter, findRegionConverter, findGatherConverter,
        findScatterConverter, findWindowConverter, findMatmulConverter, findReduceConverter, findSearchConverter,
        findSoftmaxConverter, findLossConverter, findNormConverter, findRotaryConverter,
        findAttentionConverter, findMicrosoftConverter, findMicrosoftAttentionConverter,
        findGroupQueryConverter, findExpertsConverter})
    if (ConvertFunction convert = find(op))
      return convert;
  return nullptr;
}

// Returns the file's element type of result `i`: that of the operand whose values it holds, unless
// it does not agree with the graph's type.
static Element resultElement(const NodeAdaptor &call, size_t i, Type graphType) {
  llvm::StringRef op = call.node.op();
  size_t from = op == "Where" || op == "DequantizeLinear" ? 1 : op == "OneHot" ? 2 : 0;
  bool index = op == "ArgMax" || op == "ArgMin" || (op == "TopK" && i == 1);
  if (!index && call.has(from))
    if (Element e = call.declared(from); elementType(graphType.getContext(), e) == graphType)
      return e;
  return graphType.isInteger(1) ? Element::Bool : graphType.isInteger(64) ? Element::I64 : Element::F32;
}

ConvertResult llmc::onnximport::convertCall(NodeAdaptor &call) {
  ConvertFunction convert = findConverter(call.node.qualifiedOp());
  if (!convert)
    return error("is supported only where its operands depend on shapes and constants");
  auto results = convert(call);
  if (!results)
    return results;
  for (size_t i = 0; i < results->size(); ++i)
    if (auto *made = std::get_if<ComputedValue>(&(*results)[i]); made && !made->element)
      made->element = resultElement(call, i, graph::elementOf(made->value));
  return results;
}

Type llmc::onnximport::elementType(MLIRContext *context, Element element) {
  Builder builder(context);
  if (isFloat(element))
    return builder.getF32Type();
  return element == Element::Bool ? builder.getI1Type() : Type(builder.getI64Type());
}

Value Constants::get(const HostTensor &tensor, Location loc) {
  auto type = RankedTensorType::get(tensor.shape, elementType(loc.getContext(), tensor.element));
  DenseElementsAttr data;
  if (tensor.isFloat()) {
    std::vector<float> floats(tensor.floats.begin(), tensor.floats.end());
    data = DenseElementsAttr::get(type, llvm::ArrayRef<float>(floats));
  } else if (tensor.element == Element::Bool) {
    llvm::SmallVector<bool> bits(tensor.ints.begin(), tensor.ints.end());
    data = DenseElementsAttr::get(type, llvm::ArrayRef<bool>(bits));
  } else {
    data = DenseElementsAttr::get(type, llvm::ArrayRef<int64_t>(tensor.ints));
  }
  Value &made = made_[data];
  if (!made) {
    OpBuilder builder = OpBuilder::atBlockBegin(&body_);
    made = graph::ConstantOp::create(builder, loc, type, data);
  }
  return made;
}

NodeAdaptor::NodeAdaptor(const Node &n, llvm::ArrayRef<const Operand *> operands,
                         const Model &model, Parameters &parameters, Constants &constants,
                         OpBuilder &builder)
    : node(n), build(builder, NameLoc::get(builder.getStringAttr(n.name()))), operands_(operands),
      model_(model), parameters_(parameters), constants_(constants) {}

const Constant *NodeAdaptor::known(size_t i) const {
  const KnownConstant *constant = has(i) ? std::get_if<KnownConstant>(operands_[i]) : nullptr;
  return constant ? constant->get() : nullptr;
}

const HostTensor *NodeAdaptor::compact(size_t i) const {
  const Constant *constant = known(i);
  return constant ? &constant->held : nullptr;
}

const HostTensor *NodeAdaptor::constant(size_t i) const {
  const Constant *constant = known(i);
  if (!constant || constant->isDense())
    return constant ? &constant->held : nullptr;
  auto it = dense_.find(i);
  if (it != dense_.end())
    return &it->second;
  auto whole = constant->dense();
  return whole ? &(dense_[i] = std::move(*whole)) : nullptr;
}

const Symbolic *NodeAdaptor::symbolic(size_t i) const {
  auto *constant = has(i) ? std::get_if<SymbolicConstant>(operands_[i]) : nullptr;
  return constant ? constant->get() : nullptr;
}

const View *NodeAdaptor::view(size_t i) const {
  return has(i) ? std::get_if<View>(operands_[i]) : nullptr;
}

bool NodeAdaptor::isPlaceholderOperand(size_t i, double number) const {
  const View *v = view(i);
  if (!v || !parameters_.names().lacksOperand(*node.proto, i))
    return false;
  const StoredTensor &stored = model_.stored()[v->tensor];
  if (!model_.bytesOf(stored))
    return false;
  HostTensor values = model_.read(stored);
  return isUniform(values) && values.size() && values.number(0) == number;
}

Shape NodeAdaptor::shape(size_t i) const {
  if (const Constant *constant = known(i))
    return constant->shape;
  if (const View *v = view(i))
    return v->shape;
  if (const Symbolic *s = symbolic(i))
    return s->shape();
  return has(i) ? Shape(graph::shapeOf(std::get<ComputedValue>(*operands_[i]).value)) : Shape();
}

Type NodeAdaptor::element(size_t i) const {
  MLIRContext *context = build.builder.getContext();
  if (const Constant *constant = known(i))
    return elementType(context, constant->held.element);
  if (view(i))
    return elementType(context, Element::F32);
  if (const Symbolic *s = symbolic(i))
    return elementType(context, s->element);
  return graph::elementOf(std::get<ComputedValue>(*operands_[i]).value);
}

Element NodeAdaptor::declared(size_t i) const {
  if (const Constant *constant = known(i))
    return constant->held.element;
  if (const View *v = view(i))
    return model_.stored()[v->tensor].element;
  if (const Symbolic *s = symbolic(i))
    return s->element;
  const ComputedValue &made = std::get<ComputedValue>(*operands_[i]);
  Type type = graph::elementOf(made.value);
  return made.element              ? *made.element
         : type.isInteger(1)     ? Element::Bool
         : type.isInteger(64)    ? Element::I64
                                   : Element::F32;
}

std::pair<Value, Shape> NodeAdaptor::weight(const View &view, UseKind role) {
  return {parameters_.use(view, role, node.proto), view.canonicalDims()};
}

Value NodeAdaptor::value(size_t i, UseKind role) {
  if (const Constant *constant = known(i)) {
    if (role != UseKind::Plain && constant->origin)
      if (Value computed = compute(constant->origin, role))
        return computed;
    return build.broadcast(constantValue(*constant, constant->held.shape), constant->shape);
  }
  const View *v = view(i);
  if (!v)
    return std::get<ComputedValue>(*operands_[i]).value;
  auto [argument, dims] = weight(*v, role == UseKind::Plain ? defaultRole_ : role);
  // Transpose from canonical order to the view's, then restore its dims of size 1.
  Shape inverse(dims.size());
  Shape sorted = dims;
  llvm::sort(sorted);
  for (size_t k = 0; k < dims.size(); ++k)
    inverse[llvm::find(sorted, dims[k]) - sorted.begin()] = k;
  if (!llvm::is_sorted(dims))
    argument = build.transpose(argument, inverse);
  return build.reshape(argument, v->shape);
}

static Shape withoutLeadingOnes(llvm::ArrayRef<int64_t> shape) {
  return Shape(shape.drop_while([](int64_t d) { return d == 1; }));
}

Value NodeAdaptor::broadcastable(size_t i, UseKind role) {
  if (const Constant *constant = known(i);
      constant && (role == UseKind::Plain || !constant->origin))
    return constantValue(*constant, withoutLeadingOnes(constant->held.shape));
  Value v = value(i, role);
  if (auto broadcast = v.getDefiningOp<graph::BroadcastOp>())
    v = broadcast.getOperand();
  if (auto reshape = v.getDefiningOp<graph::ReshapeOp>())
    if (withoutLeadingOnes(graph::shapeOf(v)) ==
        withoutLeadingOnes(graph::shapeOf(reshape.getOperand())) &&
        graph::shapeOf(reshape.getOperand()).size() < graph::shapeOf(v).size())
      v = reshape.getOperand();
  return v;
}

Value NodeAdaptor::scalar(double value) {
  HostTensor tensor(Element::F32, {});
  tensor.set(0, value);
  return constants_.get(tensor, build.loc);
}

Value NodeAdaptor::scalarLike(double value, Value like) {
  Type type = graph::elementOf(like);
  HostTensor tensor(type.isInteger(1)    ? Element::Bool
                    : type.isInteger(64) ? Element::I64
                                         : Element::F32,
                    {});
  tensor.set(0, value);
  return constants_.get(tensor, build.loc);
}

std::pair<Value, std::string> NodeAdaptor::lettered(size_t i, llvm::StringRef letters,
                                             const std::map<char, int64_t> &sizes) {
  std::string own;
  if (const View *v = view(i)) {
    auto [argument, dims] = weight(*v, UseKind::Weight);
    for (int64_t d : dims)
      own += letters[d];
    return {argument, own};
  }
  Value v = value(i, isCombinedWithActivation(i, 1 - i) ? UseKind::Weight : UseKind::Plain);
  Shape kept;
  for (auto [d, size] : llvm::enumerate(graph::shapeOf(v)))
    if (size != 1 || sizes.at(letters[d]) == 1) {
      kept.push_back(size);
      own += letters[d];
    }
  return {build.reshape(v, kept), own};
}

// Removes letters, of size 1, that neither the other operand nor the result has.
static Value dropLonely(graph::Build &build, Value value, std::string &own,
                        llvm::StringRef other, llvm::StringRef out) {
  std::string kept;
  Shape shape;
  for (auto [d, letter] : llvm::enumerate(own))
    if (other.contains(letter) || out.contains(letter)) {
      kept += letter;
      shape.push_back(graph::shapeOf(value)[d]);
    }
  own = kept;
  return build.reshape(value, shape);
}

support::Result<Value> NodeAdaptor::einsum(llvm::StringRef lhs, llvm::StringRef rhs,
                                    llvm::StringRef out) {
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < 2; ++i)
    for (auto [letter, size] : llvm::zip(i ? rhs : lhs, shape(i))) {
      int64_t &known = sizes.try_emplace(letter, size).first->second;
      if (known != size && known != 1 && size != 1)
        return error("shapes ", toText(shape(0)), " and ", toText(shape(1)), " do not fit: ",
                     known, " against ", size);
      known = known == 1 ? size : known; // against 1, a dim of 0 stays 0
    }
  auto [a, aLetters] = lettered(0, lhs, sizes);
  auto [b, bLetters] = lettered(1, rhs, sizes);
  for (char letter : aLetters + bLetters)
    if (!out.contains(letter) && sizes[letter] != 1 &&
        (aLetters.find(letter) == std::string::npos || bLetters.find(letter) == std::string::npos))
      return error("shapes ", toText(shape(0)), " and ", toText(shape(1)),
                   " do not fit: the summed dim is 1 against ", sizes[letter]);
  a = dropLonely(build, a, aLetters, bLetters, out);
  b = dropLonely(build, b, bLetters, aLetters, out);
  std::string made;
  Shape shape;
  for (char letter : out) {
    shape.push_back(sizes[letter]);
    if (aLetters.find(letter) != std::string::npos || bLetters.find(letter) != std::string::npos)
      made += letter;
  }
  Value product =
      build.matmul(aLetters + "," + bLetters + "->" + made, a, b, build.builder.getF32Type());
  return build.reshape(product, shape);
}
