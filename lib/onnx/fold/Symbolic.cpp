#include "lib/onnx/fold/Symbolic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <limits>

using namespace llmc;
using namespace llmc::onnximport;
using namespace llmc::support;

namespace {

using Defined = Result<std::optional<std::vector<Symbolic>>>;

Sizes sizesOf(llvm::ArrayRef<int64_t> shape) { return Sizes(shape.begin(), shape.end()); }

//===-- Operands --------------------------------------------------------------===//

// Returns the definition of a constant's elements; nullopt if it holds integers that no double does,
// or has no dim or no element.
std::optional<Symbolic> definedBy(const Constant &constant) {
  const HostTensor &held = constant.held;
  if (constant.shape.empty() || *countElements(constant.shape) == 0)
    return std::nullopt;
  for (int64_t value : held.ints)
    if (!isWhole(double(value)) || double(value) == -kMostWhole || double(value) == kMostWhole)
      return std::nullopt;
  auto kept = std::make_shared<HostTensor>(held);
  Shape strides = broadcastStrides(held.shape, constant.shape);
  for (auto [stride, size] : llvm::zip(strides, held.shape))
    stride = size == 1 ? 0 : stride;
  return Symbolic{held.element, defineStored(sizesOf(constant.shape), sizesOf(strides),
                                             [kept](int64_t i) { return kept->number(i); })};
}

// Returns the integers of an operand that gives sizes or axes; nullopt if it is not held.
std::optional<HostTensor> integersOf(llvm::ArrayRef<FoldOperand> operands, size_t i) {
  if (i >= operands.size() || !operands[i].known || operands[i].known->held.isFloat())
    return std::nullopt;
  auto dense = operands[i].known->dense();
  return dense ? std::optional(std::move(*dense)) : std::nullopt;
}

Shape shapeOf(const FoldOperand &operand) {
  return operand.symbolic ? operand.symbolic->shape() : operand.known->shape;
}

std::optional<Symbolic> definitionOf(llvm::ArrayRef<FoldOperand> operands, size_t i) {
  if (i >= operands.size() || (!operands[i].symbolic && !operands[i].known))
    return std::nullopt;
  return operands[i].symbolic ? std::optional(*operands[i].symbolic) : definedBy(*operands[i].known);
}

//===-- Elementwise ops -------------------------------------------------------===//

Combine kindOf(const Node &node, size_t operands, Element result) {
  static const llvm::StringMap<Combine> unary = {
      {"Neg", Combine::Negate}, {"Identity", Combine::Copy}, {"Cast", Combine::Copy},
      {"CastLike", Combine::Copy}};
  static const llvm::StringMap<Combine> binary = {
      {"Equal", Combine::Equal},       {"Less", Combine::Less},
      {"LessOrEqual", Combine::LessOrEqual}, {"Greater", Combine::Greater},
      {"GreaterOrEqual", Combine::GreaterOrEqual}, {"Add", Combine::Add},
      {"Sum", Combine::Add},           {"Sub", Combine::Subtract},
      {"Mul", Combine::Multiply},      {"Min", Combine::Minimum},
      {"Max", Combine::Maximum}};
  if (node.op() == "Where")
    return Combine::Select;
  const auto &table = operands == 1 ? unary : binary;
  auto it = table.find(node.op());
  Combine kind = it == table.end() ? Combine::Other : it->second;
  return kind == Combine::Copy && result == Element::Bool ? Combine::IsNotZero : kind;
}

// Sets the range of whole numbers that an element type holds, each of them.
void setRange(Combination &how, Element element) {
  double most = element == Element::F64    ? kMostWhole
                : element == Element::F32  ? 0x1p24
                : element == Element::F16  ? 0x1p11
                : element == Element::BF16 ? 0x1p8
                                           : 0;
  how.least = -most;
  how.most = most;
  if (isFloat(element))
    return;
  int bits = bitWidth(element);
  bool isSigned = wrapTo(element, -1) == -1;
  how.most = std::min(kMostWhole, std::ldexp(1, isSigned ? bits - 1 : bits) - 1);
  how.least = isSigned ? std::max(-kMostWhole, -std::ldexp(1, bits - 1)) : 0;
  if (element == Element::Bool)
    how.most = 1;
}

Element resultOf(const Node &node, llvm::ArrayRef<Element> elements) {
  static const llvm::StringMap<bool> logical = {
      {"Equal", true}, {"Less", true}, {"LessOrEqual", true}, {"Greater", true},
      {"GreaterOrEqual", true}, {"And", true}, {"Or", true}, {"Xor", true}, {"Not", true},
      {"IsNaN", true}};
  if (logical.count(node.op()))
    return Element::Bool;
  if (node.op() == "Cast")
    return elementOfCast(node).value_or(elements[0]);
  return elements[node.op() == "Where" || node.op() == "CastLike" ? 1 : 0];
}

// Returns the function that folds one element, as it would be folded in a tensor.
std::function<Result<double>(const std::vector<double> &)>
elementwise(const Node &node, FoldFunction fold, std::vector<Element> elements) {
  return [node, fold, elements](const std::vector<double> &numbers) -> Result<double> {
    std::vector<HostTensor> scalars;
    for (size_t i = 0; i < elements.size(); ++i) {
      HostTensor &scalar = scalars.emplace_back(elements[i], Shape());
      if (i < numbers.size() && scalar.isFloat())
        scalar.floats[0] = numbers[i];
      else if (i < numbers.size())
        scalar.ints[0] = int64_t(numbers[i]);
    }
    std::vector<const HostTensor *> pointers;
    for (const HostTensor &scalar : scalars)
      pointers.push_back(&scalar);
    auto result = fold({node, pointers});
    if (!result)
      return result.takeError();
    const HostTensor &out = result->front();
    if (!out.isFloat() && !isWhole(double(out.ints[0])))
      return error("gives the integer ", out.ints[0], ", which is read row by row to 2^53 only");
    return out.number(0);
  };
}

Defined defineElementwise(const Node &node, FoldFunction fold,
                          llvm::ArrayRef<FoldOperand> operands) {
  bool like = node.op() == "CastLike"; // of its second operand, only the type is used
  Shape shape;
  std::vector<Symbolic> parts;
  std::vector<Element> elements;
  for (const FoldOperand &operand : operands) {
    if (!operand.known && !operand.symbolic)
      return std::optional<std::vector<Symbolic>>();
    elements.push_back(operand.symbolic ? operand.symbolic->element : operand.known->held.element);
    if (like && elements.size() == 2)
      break;
    auto joined = broadcastShapes(shape, shapeOf(operand));
    if (!joined)
      return error("shapes ", toText(shape), " and ", toText(shapeOf(operand)),
                   " do not broadcast");
    shape = *joined;
  }
  std::vector<DefinitionRef> definitions;
  for (size_t i = 0; i < (like ? 1 : operands.size()); ++i) {
    Constant scalar; // a number has no line of its own
    FoldOperand operand = operands[i];
    if (operand.known && operand.known->shape.empty()) {
      HostTensor one = operand.known->held;
      one.shape = {1};
      scalar = Constant(std::move(one));
      operand.known = &scalar;
    }
    auto part = definitionOf({operand}, 0);
    if (!part)
      return std::optional<std::vector<Symbolic>>();
    definitions.push_back(defineBroadcast(part->definition, sizesOf(shape)));
  }
  Element result = resultOf(node, elements);
  Combination how;
  how.kind = kindOf(node, definitions.size(), result);
  how.compute = elementwise(node, fold, elements);
  setRange(how, result);
  return std::optional(std::vector<Symbolic>{{result, defineCombined(how, definitions)}});
}

//===-- Movement --------------------------------------------------------------===//

std::optional<std::vector<Symbolic>> single(Element element, DefinitionRef definition) {
  return std::vector<Symbolic>{{element, std::move(definition)}};
}

// Defines the same elements in a shape that differs only in dims of 1; nullopt for other shapes.
std::optional<std::vector<Symbolic>> withShape(const Symbolic &in, const Shape &shape) {
  std::vector<ViewedDim> dims;
  size_t next = 0;
  auto skipOnes = [&] {
    while (next < shape.size() && shape[next] == 1)
      ++next;
  };
  for (int64_t size : in.shape()) {
    if (size == 1) {
      dims.push_back({0, -1, 1});
      continue;
    }
    skipOnes();
    if (next == shape.size() || shape[next] != size)
      return std::nullopt;
    dims.push_back({0, int(next++), 1});
  }
  skipOnes();
  if (next != shape.size() || shape.empty())
    return std::nullopt;
  return single(in.element, defineView(in.definition, sizesOf(shape), dims));
}

Defined defineReshaped(const Node &node, const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  auto second = integersOf(operands, 1);
  if (operands.size() > 1 && !second)
    return std::optional<std::vector<Symbolic>>();
  const HostTensor *values = second ? &*second : nullptr;
  Shape own = in.shape();
  auto shape = node.op() == "Reshape"     ? reshapedShape(node, own, second ? second->ints
                                                                            : std::vector<int64_t>())
               : node.op() == "Squeeze"   ? squeezedShape(node, own, values)
               : node.op() == "Unsqueeze" ? unsqueezedShape(node, own, values)
                                          : flattenedShape(node, own);
  if (!shape)
    return shape.takeError();
  return withShape(in, *shape);
}

Defined defineTransposed(const Node &node, const Symbolic &in) {
  auto permutation = permutationOf(node, in.shape().size());
  if (!permutation)
    return permutation.takeError();
  Sizes shape;
  std::vector<ViewedDim> dims(permutation->size());
  for (auto [i, dim] : llvm::enumerate(*permutation)) {
    shape.push_back(in.shape()[dim]);
    dims[dim] = {0, int(i), 1};
  }
  return single(in.element, defineView(in.definition, shape, dims));
}

DefinitionRef part(const DefinitionRef &of, const SliceRange &range) {
  std::vector<ViewedDim> dims;
  for (size_t d = 0; d < range.counts.size(); ++d)
    dims.push_back({range.starts[d], int(d), range.steps[d]});
  return defineView(of, sizesOf(range.counts), dims);
}

Defined defineSlice(const Node &node, const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  std::vector<std::optional<HostTensor>> values;
  std::vector<const HostTensor *> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    values.push_back(i ? integersOf(operands, i) : std::nullopt);
    if (i && operands[i].known && !values.back())
      return std::optional<std::vector<Symbolic>>();
  }
  for (const auto &value : values)
    pointers.push_back(value ? &*value : nullptr);
  auto range = sliceRange(node, in.shape(), pointers);
  if (!range)
    return range.takeError();
  if (*countElements(range->counts) == 0)
    return std::optional<std::vector<Symbolic>>();
  return single(in.element, part(in.definition, *range));
}

Defined defineSplit(const Node &node, const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  auto sizes = integersOf(operands, 1);
  auto parts = splitParts(node, in.shape(), sizes ? &*sizes : nullptr);
  if (!parts)
    return parts.takeError();
  std::vector<Symbolic> out;
  SliceRange range{Shape(in.shape().size(), 0), Shape(in.shape().size(), 1), in.shape()};
  for (int64_t size : parts->sizes) {
    if (size == 0)
      return std::optional<std::vector<Symbolic>>();
    range.counts[parts->axis] = size;
    out.push_back({in.element, part(in.definition, range)});
    range.starts[parts->axis] += size;
  }
  return std::optional(std::move(out));
}

Defined defineExpanded(const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  auto target = integersOf(operands, 1);
  if (!target)
    return std::optional<std::vector<Symbolic>>();
  auto shape = broadcastShapes(in.shape(), target->ints);
  if (!shape)
    return error("shape ", toText(in.shape()), " does not broadcast to ", toText(target->ints));
  return single(in.element, defineBroadcast(in.definition, sizesOf(*shape)));
}

Defined defineTile(const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  auto repeats = integersOf(operands, 1);
  if (!repeats || repeats->ints.size() != in.shape().size())
    return std::optional<std::vector<Symbolic>>();
  Sizes shape = sizesOf(in.shape());
  for (auto [size, repeat] : llvm::zip(shape, repeats->ints)) {
    if (repeat < 1 || (repeat > 1 && size > 1))
      return std::optional<std::vector<Symbolic>>();
    size *= repeat;
  }
  return single(in.element, defineBroadcast(in.definition, shape));
}

Defined defineTrilu(const Node &node, const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  auto k = integersOf(operands, 1);
  bool given = operands.size() > 1 && (operands[1].known || operands[1].symbolic);
  if (in.shape().size() < 2 || (given && (!k || k->size() != 1)))
    return error("needs a matrix and a scalar k");
  return single(in.element, defineTriangle(in.definition, k ? k->ints[0] : 0,
                                           node.integer("upper", 1)));
}

Defined defineConcat(const Node &node, llvm::ArrayRef<FoldOperand> operands) {
  std::vector<DefinitionRef> parts;
  std::optional<Element> element;
  for (size_t i = 0; i < operands.size(); ++i) {
    if ((operands[i].known || operands[i].symbolic) &&
        *countElements(shapeOf(operands[i])) == 0)
      continue; // an empty cache
    auto part = definitionOf(operands, i);
    if (!part || (element && *element != part->element))
      return std::optional<std::vector<Symbolic>>();
    element = part->element;
    parts.push_back(part->definition);
  }
  if (parts.empty())
    return std::optional<std::vector<Symbolic>>();
  Sizes shape = parts.front()->shape();
  auto axis = normalAxis(node.integer("axis", 0), shape.size());
  if (!axis)
    return error("axis ", node.integer("axis", 0), " is not one of ", shape.size(), " dims");
  for (const DefinitionRef &part : parts) {
    Sizes own = part->shape();
    if (own.size() == shape.size())
      own[*axis] = shape[*axis];
    if (own != shape)
      return error("shapes ", toText(shape), " and ", toText(part->shape()),
                   " do not concatenate");
  }
  return single(*element, defineJoined(std::move(parts), *axis));
}

//===-- Indices ---------------------------------------------------------------===//

// Returns how elements that index a dim of `size` run: along one dim at most, evenly spaced; nullopt
// if they do not, or one is out of range.
Result<std::optional<ViewedDim>> spacing(const Definition &ids, int64_t size) {
  ViewedDim out;
  for (size_t d = 0; d < ids.shape().size(); ++d)
    if (ids.varies(d)) {
      if (out.dim >= 0)
        return std::optional<ViewedDim>();
      out.dim = int(d);
    }
  Runs line;
  size_t dim = out.dim < 0 ? ids.shape().size() - 1 : out.dim;
  if (Status s = ids.line(Sizes(ids.shape().size(), 0), dim, line); !s)
    return s.takeError();
  if (line.size() != 1)
    return std::optional<ViewedDim>();
  double first = line[0].first, last = first + line[0].step * double(line[0].end - 1);
  if (first < 0 && last < 0) {
    first += double(size);
    last += double(size);
  }
  if (std::min(first, last) < 0 || std::max(first, last) >= double(size))
    return std::optional<ViewedDim>();
  out.start = int64_t(first);
  out.step = int64_t(line[0].step);
  out.dim = line[0].step == 0 ? -1 : out.dim;
  return std::optional(out);
}

// Returns the entries `i` of all index tuples, the last dim of `ids`.
DefinitionRef entries(const DefinitionRef &ids, int64_t i) {
  std::vector<ViewedDim> dims;
  for (size_t d = 0; d + 1 < ids->shape().size(); ++d)
    dims.push_back({0, int(d), 1});
  dims.push_back({i, -1, 1});
  Sizes shape(ids->shape().begin(), ids->shape().end() - 1);
  return defineView(ids, shape, dims);
}

// Returns how index tuples that name every dim of `shape` run, per dim; nullopt if one is not evenly
// spaced, or two run along one dim.
Result<std::optional<std::vector<ViewedDim>>> spacings(const DefinitionRef &ids, const Shape &shape) {
  std::optional<std::vector<ViewedDim>> out, none;
  out.emplace();
  if (ids->shape().size() < 2 || ids->shape().back() != int64_t(shape.size()))
    return none;
  for (size_t d = 0; d < shape.size(); ++d) {
    auto one = spacing(*entries(ids, d), shape[d]);
    if (!one)
      return one.takeError();
    if (!*one)
      return none;
    for (const ViewedDim &other : *out)
      if (other.dim >= 0 && other.dim == (*one)->dim)
        return none;
    out->push_back(**one);
  }
  return out;
}

Defined defineGather(const Node &node, const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  auto ids = integersOf(operands, 1);
  auto axis = normalAxis(node.integer("axis", 0), in.shape().size());
  if (!ids || !axis || ids->size() == 0 || ids->shape.size() > 1)
    return std::optional<std::vector<Symbolic>>();
  ids->shape = {ids->size()};
  auto list = definedBy(Constant(*ids));
  auto spaced = list ? spacing(*list->definition, in.shape()[*axis]) : std::optional<ViewedDim>();
  if (!spaced)
    return spaced.takeError();
  if (!*spaced)
    return std::optional<std::vector<Symbolic>>();
  bool keeps = operands[1].known->shape.size() == 1; // one index drops the dim
  Sizes shape = sizesOf(in.shape());
  std::vector<ViewedDim> dims;
  for (int d = 0; d < int(shape.size()); ++d)
    dims.push_back({0, d > *axis && !keeps ? d - 1 : d, 1});
  dims[*axis] = {(*spaced)->start, (*spaced)->dim < 0 ? -1 : int(*axis), (*spaced)->step};
  if (keeps)
    shape[*axis] = ids->size();
  else
    shape.erase(shape.begin() + *axis);
  if (shape.empty())
    return std::optional<std::vector<Symbolic>>();
  return single(in.element, defineView(in.definition, shape, dims));
}

Defined defineGatherND(const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  auto ids = definitionOf(operands, 1);
  if (!ids)
    return std::optional<std::vector<Symbolic>>();
  auto dims = spacings(ids->definition, in.shape());
  if (!dims)
    return dims.takeError();
  if (!*dims)
    return std::optional<std::vector<Symbolic>>();
  Sizes shape(ids->definition->shape().begin(), ids->definition->shape().end() - 1);
  return single(in.element, defineView(in.definition, shape, **dims));
}

// Defines a ScatterND that assigns to a region: tuple entry d is start + the index along dim d.
Defined defineScatterND(const Symbolic &in, llvm::ArrayRef<FoldOperand> operands) {
  std::optional<std::vector<Symbolic>> none;
  auto ids = definitionOf(operands, 1), updates = definitionOf(operands, 2);
  if (!ids || !updates || updates->element != in.element)
    return none;
  auto dims = spacings(ids->definition, in.shape());
  if (!dims)
    return dims.takeError();
  Sizes shape(ids->definition->shape().begin(), ids->definition->shape().end() - 1), start;
  if (!*dims || shape != updates->definition->shape() || shape.size() != in.shape().size())
    return none;
  for (size_t d = 0; d < shape.size(); ++d) {
    const ViewedDim &dim = (**dims)[d];
    bool runs = dim.dim == int(d) && dim.step == 1;
    if (!runs && !(dim.dim < 0 && shape[d] == 1))
      return none;
    start.push_back(dim.start);
  }
  return single(in.element, defineReplaced(in.definition, updates->definition, start));
}

Defined define(const Node &node, FoldFunction fold, llvm::ArrayRef<FoldOperand> operands) {
  llvm::StringRef op = node.op();
  if (findArithmeticFold(op))
    return defineElementwise(node, fold, operands);
  if (op == "Concat")
    return defineConcat(node, operands);
  auto in = definitionOf(operands, 0);
  if (!in)
    return std::optional<std::vector<Symbolic>>();
  if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten")
    return defineReshaped(node, *in, operands);
  if (op == "Transpose")
    return defineTransposed(node, *in);
  if (op == "Slice")
    return defineSlice(node, *in, operands);
  if (op == "Split")
    return defineSplit(node, *in, operands);
  if (op == "Expand")
    return defineExpanded(*in, operands);
  if (op == "Tile")
    return defineTile(*in, operands);
  if (op == "Trilu")
    return defineTrilu(node, *in, operands);
  if (op == "Gather")
    return defineGather(node, *in, operands);
  if (op == "GatherND")
    return defineGatherND(*in, operands);
  if (op == "ScatterND")
    return defineScatterND(*in, operands);
  return std::optional<std::vector<Symbolic>>();
}

//===-- Reductions ------------------------------------------------------------===//

// Reduces a line to a number.
double reduced(const Runs &line, llvm::StringRef op) {
  double out = op == "ReduceMax"   ? -std::numeric_limits<double>::infinity()
               : op == "ReduceMin" ? std::numeric_limits<double>::infinity()
                                   : 0;
  int64_t begin = 0;
  for (const Run &run : line) {
    double count = double(run.end - begin), last = run.first + run.step * (count - 1);
    if (op == "ReduceMax" || op == "ReduceMin")
      for (double end : {run.first, last})
        out = end != end || (op == "ReduceMax" ? end > out : end < out) ? end : out;
    else
      out += run.step == 0 ? run.first * count : (run.first + last) / 2 * count;
    begin = run.end;
  }
  return op == "ReduceMean" ? out / double(begin) : out;
}

// Reduces one dim by its lines; nullopt for other reductions.
Result<std::optional<Constant>> reduce(const Node &node, const Symbolic &in,
                                       llvm::ArrayRef<FoldOperand> operands) {
  static const llvm::StringSet<> ops = {"ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean"};
  auto list = integersOf(operands, 1);
  auto axes = axesOf(node, list ? &*list : nullptr, in.shape().size());
  bool isWhole = node.op() == "ReduceMean" && !isFloat(in.element); // is rounded toward zero
  if (!axes || axes->size() != 1 || !ops.contains(node.op()) || isWhole)
    return std::optional<Constant>();
  size_t dim = axes->front();
  Shape kept = in.shape(), own;
  kept[dim] = 1;
  for (size_t d = 0; d < kept.size(); ++d)
    own.push_back(in.definition->varies(d) ? kept[d] : 1);
  if (auto s = checkHostSize(own); !s)
    return s.takeError();
  HostTensor out(in.element, own);
  Sizes index(kept.size(), 0);
  Runs line;
  for (int64_t n = 0, count = out.size(); n < count; ++n) {
    int64_t rest = n;
    for (size_t d = kept.size(); d-- > 0; rest /= own[d])
      index[d] = rest % own[d];
    line.clear();
    if (Status s = in.definition->line(index, dim, line); !s)
      return s.takeError();
    out.set(n, reduced(line, node.op()));
  }
  if (!node.integer("keepdims", 1)) {
    out.shape.erase(out.shape.begin() + dim);
    kept.erase(kept.begin() + dim);
  }
  return std::optional(Constant(std::move(out), kept));
}

//===-- Which constants are defined -------------------------------------------===//

// Returns the elements that differ: those along dims that do not repeat.
int64_t countHeld(const Definition &definition) {
  Shape held;
  for (size_t d = 0; d < definition.shape().size(); ++d)
    held.push_back(definition.varies(d) ? definition.shape()[d] : 1);
  return countElements(held).value_or(INT64_MAX);
}

// Returns whether the fold function of an op keeps dims that repeat (foldConstants).
bool keepsRepeats(const Node &node) {
  return findArithmeticFold(node.op()) || node.op() == "Concat";
}

// Returns whether folding held operands may make a constant that is far larger than they are.
bool mayGrow(const Node &node, llvm::ArrayRef<FoldOperand> operands) {
  static const llvm::StringSet<> small = {"Expand", "Unsqueeze", "ConstantOfShape"};
  Shape joined;
  bool expands = false;
  for (const FoldOperand &operand : operands) {
    if (!operand.known)
      continue;
    auto both = broadcastShapes(joined, operand.known->held.shape);
    joined = both ? *both : joined;
    expands |= !operand.known->isDense() &&
               countElements(operand.known->shape).value_or(INT64_MAX) > mostHeldElements;
  }
  if (keepsRepeats(node))
    return countElements(joined).value_or(INT64_MAX) > mostHeldElements;
  return expands && !small.contains(node.op());
}

} // namespace

Result<Constant> llmc::onnximport::held(const Symbolic &symbolic) {
  const Definition &definition = *symbolic.definition;
  Shape shape = symbolic.shape(), own;
  for (size_t d = 0; d < shape.size(); ++d)
    own.push_back(definition.varies(d) ? shape[d] : 1);
  if (auto s = checkHostSize(own); !s)
    return s.takeError();
  HostTensor out(symbolic.element, own);
  Shape lines = own;
  lines.back() = 1;
  Sizes index(shape.size(), 0);
  int64_t length = own.back(), count = *countElements(lines);
  Runs line;
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n;
    for (size_t d = shape.size(); d-- > 0; rest /= lines[d])
      index[d] = rest % lines[d];
    line.clear();
    if (Status s = definition.line(index, shape.size() - 1, line); !s)
      return s.takeError();
    int64_t begin = 0;
    for (const Run &run : line) {
      for (int64_t i = begin; i < std::min(run.end, length); ++i) {
        double number = Piece{run.first, run.step}.at(i - begin);
        if (out.isFloat())
          out.floats[n * length + i] = number;
        else
          out.ints[n * length + i] = int64_t(number);
      }
      begin = run.end;
    }
  }
  return Constant(std::move(out), shape);
}

Result<std::optional<std::vector<Folded>>>
llmc::onnximport::foldSymbolic(const Node &node, FoldFunction fold,
                               llvm::ArrayRef<FoldOperand> operands) {
  std::optional<std::vector<Folded>> out, none;
  bool any = llvm::any_of(operands, [](const FoldOperand &operand) { return operand.symbolic; });
  if (!fold || (!any && !mayGrow(node, operands)))
    return none;
  if (!operands.empty() && operands[0].symbolic) {
    auto constant = reduce(node, *operands[0].symbolic, operands);
    if (!constant)
      return constant.takeError();
    if (*constant)
      return std::optional(std::vector<Folded>{std::move(**constant)});
  }
  auto made = define(node, fold, operands);
  if (!made)
    return made.takeError();
  // A single number has no lines: it is folded as any other constant.
  if (!*made || llvm::any_of(**made, [](const Symbolic &one) { return one.shape().empty(); }))
    return none;
  int64_t given = 0;
  for (const FoldOperand &operand : operands)
    if (operand.known)
      given = std::max(given, operand.known->held.size());
  out.emplace();
  for (Symbolic &symbolic : **made) {
    int64_t count = countHeld(*symbolic.definition);
    bool small = count <= mostHeldElements || (!any && count / leastGrowth < given);
    if (small && !any && keepsRepeats(node))
      return none;
    if (!small) {
      out->push_back(std::move(symbolic));
      continue;
    }
    auto constant = held(symbolic);
    if (!constant)
      return constant.takeError();
    out->push_back(std::move(*constant));
  }
  return out;
}
