#include "lib/onnx/Conversion.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

bool isVector(llvm::ArrayRef<int64_t> shape) {
  shape = shape.drop_while([](int64_t d) { return d == 1; });
  return shape.size() == 1;
}

// A vector along the last dim that is added is a bias, one that is multiplied a scale.
Role roleOf(Call &call, size_t operand, llvm::StringRef op) {
  Shape own = call.shape(operand), other = call.shape(1 - operand);
  if (!call.view(operand) || !isVector(own) || other.empty() || own.back() != other.back() ||
      call.view(1 - operand))
    return Role::Plain;
  return op == "Add" ? Role::Bias : op == "Mul" ? Role::Scale : Role::Plain;
}

// The operands of a broadcasting op, small where that gives the same shape.
support::Result<std::vector<Value>> broadcastOperands(Call &call, size_t first) {
  Shape shape;
  for (size_t i = 0; i < call.size(); ++i) {
    if (!call.has(i))
      return error("operand ", i, " is missing");
    auto joined = broadcastShapes(shape, call.shape(i));
    if (!joined)
      return error("shapes ", toText(shape), " and ", toText(call.shape(i)),
                   " do not broadcast");
    shape = *joined;
  }
  for (size_t i = first + 1; i < call.size(); ++i)
    if (call.element(i) != call.element(first))
      return error("operands differ in element type");
  std::vector<Value> values;
  Shape reached;
  for (size_t i = 0; i < call.size(); ++i) {
    Role role = call.size() == 2 ? roleOf(call, i, call.node.op()) : Role::Plain;
    values.push_back(call.broadcastable(i, role));
    reached = *broadcastShapes(reached, graph::shapeOf(values.back()));
  }
  if (reached == shape)
    return values;
  for (size_t i = 0; i < call.size(); ++i)
    values[i] = call.value(i);
  return values;
}

template <class Op>
ConvertResult binary(Call &call) {
  if (call.size() < 1)
    return error("needs operands");
  auto values = broadcastOperands(call, 0);
  if (!values)
    return values.takeError();
  Value out = (*values)[0];
  for (size_t i = 1; i < values->size(); ++i)
    out = Op::create(call.build.builder, call.build.loc, out, (*values)[i]);
  return single(out);
}

template <class Op>
ConvertResult strictBinary(Call &call) {
  if (call.size() != 2)
    return error("needs two operands, got ", call.size());
  return binary<Op>(call);
}

template <class Op>
ConvertResult logical(Call &call) {
  if (call.size() != 2 || !call.has(0) || !call.element(0).isInteger(1))
    return error("needs two boolean operands");
  return binary<Op>(call);
}

template <class Op>
ConvertResult unary(Call &call) {
  if (!call.has(0) || !call.isFloat(0))
    return error("needs a float operand");
  return single(Op::create(call.build.builder, call.build.loc, call.value(0)));
}

ConvertResult convertReciprocal(Call &call) {
  if (!call.has(0) || !call.isFloat(0))
    return error("needs a float operand");
  return single(call.build.div(call.scalar(1), call.value(0)));
}

ConvertResult convertAbs(Call &call) {
  if (!call.has(0) || !call.isFloat(0))
    return error("needs a float operand");
  Value x = call.value(0);
  return single(graph::MaximumOp::create(call.build.builder, call.build.loc, x,
                                         call.build.neg(x)));
}

ConvertResult convertPow(Call &call) {
  const HostTensor *exponent = call.compact(1);
  if (!call.has(0) || !call.isFloat(0) || !exponent)
    return error("needs a float base and an exponent that is known at import");
  if (exponent->size() != 1 ||
      broadcastShapes(call.shape(0), call.shape(1)) != std::optional(call.shape(0)))
    return error("needs one exponent for all elements, got shape ", toText(call.shape(1)));
  return single(graph::PowOp::create(call.build.builder, call.build.loc, call.value(0),
                                     call.build.builder.getF64FloatAttr(exponent->number(0))));
}

ConvertResult convertClip(Call &call) {
  if (!call.has(0) || !call.isFloat(0))
    return error("needs a float operand");
  Value x = call.value(0);
  for (int side = 0; side < 2; ++side) {
    const HostTensor *bound = call.constant(1 + side);
    if (call.has(1 + side) && (!bound || bound->size() != 1))
      return error("bounds must be scalars that are known at import");
    const char *attribute = side ? "max" : "min";
    if (!bound && !call.node.has(attribute))
      continue;
    Value limit = call.scalar(bound ? bound->number(0) : call.node.number(attribute, 0));
    x = side ? Value(graph::MinimumOp::create(call.build.builder, call.build.loc, x, limit))
             : Value(graph::MaximumOp::create(call.build.builder, call.build.loc, x, limit));
  }
  return single(x);
}

ConvertResult convertGelu(Call &call) {
  std::string form = call.node.text("approximate", "none");
  if (!call.has(0) || !call.isFloat(0) || (form != "none" && form != "tanh"))
    return error("needs a float operand, and approximate = none or tanh, got ", form);
  return single(graph::GeluOp::create(call.build.builder, call.build.loc, call.value(0),
                                      form == "tanh" ? graph::GeluForm::tanh
                                                     : graph::GeluForm::erf));
}

template <graph::Predicate predicate>
ConvertResult compare(Call &call) {
  if (call.size() != 2)
    return error("needs two operands, got ", call.size());
  auto values = broadcastOperands(call, 0);
  if (!values)
    return values.takeError();
  return single(call.build.compare((*values)[0], (*values)[1], predicate));
}

ConvertResult convertNot(Call &call) {
  if (!call.has(0) || !call.element(0).isInteger(1))
    return error("needs a boolean operand");
  return single(graph::NotOp::create(call.build.builder, call.build.loc, call.value(0)));
}

// NaN is the only value that differs from itself.
ConvertResult convertIsNaN(Call &call) {
  if (!call.has(0) || !call.isFloat(0))
    return error("needs a float operand");
  Value x = call.value(0);
  return single(call.build.compare(x, x, graph::Predicate::ne));
}

// graph.softmax gives zeros where ONNX's gives NaN (a row of -inf), so exporters'
// guards after it never choose their first operand.
bool guardsSoftmax(Value condition) {
  auto compare = condition.getDefiningOp<graph::CompareOp>();
  return compare && compare.getPredicate() == graph::Predicate::ne &&
         compare.getLhs() == compare.getRhs() &&
         compare.getLhs().getDefiningOp<graph::SoftmaxOp>();
}

ConvertResult convertWhere(Call &call) {
  if (!call.has(0) || !call.has(1) || !call.has(2))
    return error("needs three operands");
  auto ab = broadcastShapes(call.shape(1), call.shape(2));
  auto shape = ab ? broadcastShapes(call.shape(0), *ab) : std::nullopt;
  if (!shape)
    return error("shapes ", toText(call.shape(0)), ", ", toText(call.shape(1)), ", ",
                 toText(call.shape(2)), " do not broadcast");
  if (!call.element(0).isInteger(1))
    return error("needs a boolean condition");
  std::optional<size_t> chosen;
  if (const HostTensor *condition = call.compact(0)) {
    if (condition->size() == 1)
      chosen = condition->ints[0] ? 1 : 2;
  } else if (Value v = call.value(0); guardsSoftmax(v)) {
    chosen = 2;
  }
  if (chosen)
    return single(call.build.broadcast(call.value(*chosen), *shape));
  auto values = broadcastOperands(call, 1);
  if (!values)
    return values.takeError();
  return single(call.build.select((*values)[0], (*values)[1], (*values)[2]));
}

ConvertResult convertCast(Call &call) {
  std::optional<Element> element;
  if (call.node.op() == "Cast")
    element = elementOfCast(call.node);
  else if (call.has(1))
    element = call.isFloat(1) ? Element::F32 : Element::I64;
  if (!call.has(0) || !element || *element == Element::F64)
    return error("to ", elementName(call.node.integer("to", 0)),
                 " is not supported: to float32, int64, int32 or bool is");
  Value x = call.value(0);
  if (*element == Element::Bool && !graph::elementOf(x).isInteger(1)) {
    Value zero = call.build.constant(0, graph::elementOf(x));
    return single(call.build.compare(x, zero, graph::Predicate::ne));
  }
  return single(call.build.cast(x, elementType(x.getContext(), *element)));
}

ConvertResult convertIdentity(Call &call) {
  if (!call.has(0))
    return error("needs an operand");
  return single(call.value(0));
}

// Exported from evaluation mode, where it does nothing.
ConvertResult convertDropout(Call &call) {
  const HostTensor *training = call.constant(2);
  if (call.has(2) && (!training || training->size() != 1 || training->number(0) != 0))
    return error("in training mode is not supported: export the model in evaluation mode");
  return convertIdentity(call);
}

} // namespace

ConvertFunction llmc::onnximport::findElementwiseConverter(llvm::StringRef op) {
  using graph::Predicate;
  static const llvm::StringMap<ConvertFunction> table = {
      {"Add", strictBinary<graph::AddOp>},
      {"Sub", strictBinary<graph::SubOp>},
      {"Mul", strictBinary<graph::MulOp>},
      {"Div", strictBinary<graph::DivOp>},
      {"Sum", binary<graph::AddOp>},
      {"Max", binary<graph::MaximumOp>},
      {"Min", binary<graph::MinimumOp>},
      {"And", logical<graph::AndOp>},
      {"Or", logical<graph::OrOp>},
      {"Neg", unary<graph::NegOp>},
      {"Exp", unary<graph::ExpOp>},
      {"Log", unary<graph::LogOp>},
      {"Sqrt", unary<graph::SqrtOp>},
      {"Tanh", unary<graph::TanhOp>},
      {"Erf", unary<graph::ErfOp>},
      {"Sigmoid", unary<graph::SigmoidOp>},
      {"Relu", unary<graph::ReluOp>},
      {"Reciprocal", convertReciprocal},
      {"Abs", convertAbs},
      {"Pow", convertPow},
      {"Clip", convertClip},
      {"Gelu", convertGelu},
      {"Equal", compare<Predicate::eq>},
      {"Less", compare<Predicate::lt>},
      {"LessOrEqual", compare<Predicate::le>},
      {"Greater", compare<Predicate::gt>},
      {"GreaterOrEqual", compare<Predicate::ge>},
      {"Not", convertNot},
      {"IsNaN", convertIsNaN},
      {"Where", convertWhere},
      {"Cast", convertCast},
      {"CastLike", convertCast},
      {"Identity", convertIdentity},
      {"Dropout", convertDropout},
  };
  return table.lookup(op);
}
