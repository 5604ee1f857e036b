#include "lib/onnx/convert/Sequences.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;

// Limits the parts of a sequence.
static constexpr int64_t mostParts = 1 << 16;

Shape llmc::onnximport::shapeOf(const Operand &operand) {
  if (auto *constant = std::get_if<KnownConstant>(&operand))
    return (*constant)->shape;
  if (auto *view = std::get_if<View>(&operand))
    return view->shape;
  if (auto *symbolic = std::get_if<SymbolicConstant>(&operand))
    return (*symbolic)->shape();
  return Shape(graph::shapeOf(std::get<ComputedValue>(operand).value));
}

// Returns the value of a known operand of integers, nullopt for any other.
static std::optional<HostTensor> integersOf(const Operand &operand) {
  auto *constant = std::get_if<KnownConstant>(&operand);
  if (!constant || (*constant)->held.isFloat())
    return std::nullopt;
  auto dense = (*constant)->dense();
  return dense ? std::optional(std::move(*dense)) : std::nullopt;
}

// Returns the sizes of the parts: those given, or equal ones of a given size (1 if none), of which
// the last may be smaller.
static Result<Shape> sizesOfParts(llvm::ArrayRef<Operand> operands, int64_t size) {
  bool given = operands.size() > 1 && !std::holds_alternative<std::monostate>(operands[1]);
  std::optional<HostTensor> split = given ? integersOf(operands[1]) : std::nullopt;
  if (given && !split)
    return error("its sizes depend on the values of inputs, only constants are supported");
  if (split && split->shape.size() == 1)
    return Shape(split->ints.begin(), split->ints.end());
  int64_t part = split && split->size() == 1 ? split->ints.front() : split ? 0 : 1;
  if (part < 1)
    return error("a part has ", part, " elements, at least 1 is needed");
  int64_t count = size / part + (size % part != 0);
  if (count > mostParts)
    return error("makes ", count, " parts, at most ", mostParts, " are supported");
  Shape sizes;
  for (int64_t at = 0; at < size; at += part)
    sizes.push_back(std::min(part, size - at));
  return sizes;
}

// Converts to a Split and, if the parts lose the dim, Squeezes.
static ConvertResult splitToSequence(const Node &node, llvm::ArrayRef<Operand> operands,
                                     ConvertTensors convert) {
  if (operands.empty() || isSequence(operands.front()) ||
      std::holds_alternative<std::monostate>(operands.front()))
    return error("needs a tensor");
  Shape shape = shapeOf(operands.front());
  auto axis = normalAxis(node.integer("axis", 0), shape.size());
  if (!axis)
    return error("axis ", node.integer("axis", 0), " is not one of ", shape.size(), " dims");
  auto sizes = sizesOfParts(operands, shape[*axis]);
  if (!sizes)
    return sizes.takeError();
  bool given = operands.size() > 1 && !std::holds_alternative<std::monostate>(operands[1]);
  ::onnx::NodeProto split;
  split.set_name(node.name());
  split.set_op_type("Split");
  for (size_t i = 0; i < sizes->size(); ++i)
    split.add_output(node.name() + "#" + std::to_string(i));
  auto *attribute = split.add_attribute();
  attribute->set_name("axis");
  attribute->set_i(*axis);
  auto parts = convert(Node(split, node.opset),
                       {operands.front(), known(HostTensor::vector(*sizes))});
  if (!parts || given || node.integer("keepdims", 1))
    return parts ? ConvertResult(std::vector<Operand>{
                       std::make_shared<const Sequence>(Sequence{std::move(*parts)})})
                 : std::move(parts);
  ::onnx::NodeProto squeeze;
  squeeze.set_name(node.name());
  squeeze.set_op_type("Squeeze");
  Sequence sequence;
  for (const Operand &part : *parts) {
    auto squeezed =
        convert(Node(squeeze, node.opset), {part, known(HostTensor::vector(Shape{*axis}))});
    if (!squeezed)
      return squeezed;
    sequence.parts.push_back(std::move(squeezed->front()));
  }
  return std::vector<Operand>{std::make_shared<const Sequence>(std::move(sequence))};
}

static ConvertResult sequenceAt(const Node &, llvm::ArrayRef<Operand> operands, ConvertTensors) {
  auto *sequence =
      operands.empty() ? nullptr
                       : std::get_if<std::shared_ptr<const Sequence>>(&operands.front());
  if (!sequence)
    return error("needs a sequence that SplitToSequence makes");
  std::optional<HostTensor> position =
      operands.size() > 1 ? integersOf(operands[1]) : std::nullopt;
  if (!position || position->size() != 1)
    return error("its position depends on the values of inputs, only a constant is supported");
  const std::vector<Operand> &parts = (*sequence)->parts;
  auto at = normalAxis(position->ints.front(), parts.size());
  if (!at)
    return error("position ", position->ints.front(), " is not one of ", parts.size(), " parts");
  return std::vector<Operand>{parts[*at]};
}

static ConvertResult sequenceConstruct(const Node &, llvm::ArrayRef<Operand> operands,
                                       ConvertTensors) {
  for (const Operand &operand : operands)
    if (isSequence(operand) || std::holds_alternative<std::monostate>(operand))
      return error("needs tensors");
  return std::vector<Operand>{
      std::make_shared<const Sequence>(Sequence{std::vector<Operand>(operands)})};
}

static ConvertResult identity(const Node &node, llvm::ArrayRef<Operand> operands,
                              ConvertTensors convert) {
  if (operands.empty() || !isSequence(operands.front()))
    return convert(node, operands);
  return std::vector<Operand>{operands.front()};
}

SequenceFunction llmc::onnximport::findSequenceConverter(llvm::StringRef op) {
  return op == "SplitToSequence"     ? splitToSequence
         : op == "SequenceAt"        ? sequenceAt
         : op == "SequenceConstruct" ? sequenceConstruct
         : op == "Identity"          ? identity
                                     : nullptr;
}
