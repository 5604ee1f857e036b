#include "lib/onnx/convert/RaggedRows.h"

#include "lib/onnx/convert/Formula.h"

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

using Ragged = std::shared_ptr<const RaggedRows>;

class Converter {
public:
  Converter(NodeAdaptor &call, llvm::ArrayRef<Operand> operands, ConvertTensors convert)
      : call_(call), node_(call.node), operands_(operands), convert_(convert) {}

  ConvertResult run() {
    std::string op = node_.qualifiedOp();
    if (op == "Range")
      return range();
    if (op == "Gather")
      return gather();
    if (op == "MatMul" && isProduct())
      return std::vector<Operand>{withRows(ragged(0)->rows, operands_[1])};
    if (op == "Concat")
      return concat();
    return rowByRow();
  }

private:
  NodeAdaptor &call_;
  const Node &node_;
  llvm::ArrayRef<Operand> operands_;
  ConvertTensors convert_;

  const RaggedRows *ragged(size_t i) const {
    auto *rows = i < operands_.size() ? std::get_if<Ragged>(&operands_[i]) : nullptr;
    return rows ? rows->get() : nullptr;
  }

  const RaggedRows &first() const {
    for (size_t i = 0;; ++i)
      if (ragged(i))
        return *ragged(i);
  }

  // Returns rows [start, end) of another operand, as the first ragged operand has them.
  Operand withRows(Operand rows, Operand factor = Operand()) const {
    return std::make_shared<const RaggedRows>(RaggedRows{first().start, first().end, std::move(rows), std::move(factor)});
  }

  // Converts a Range in steps of 1 between computed numbers.
  ConvertResult range() {
    const HostTensor *start = call_.constant(0), *step = call_.constant(2);
    bool one = step && step->size() == 1 && step->number(0) == 1;
    bool fits = call_.size() == 3 && call_.isInteger(1) && *countElements(call_.shape(1)) == 1 &&
                call_.isInteger(0) && *countElements(call_.shape(0)) == 1;
    if (!fits || !one || (start && start->number(0) != 0))
      return error("has a length that depends on the values of inputs: supported are rows of experts, from 0 or a "
                   "computed number on, in steps of 1");
    RaggedRows rows;
    rows.start = start ? Value() : call_.value(0);
    rows.end = call_.value(1);
    return std::vector<Operand>{std::make_shared<const RaggedRows>(std::move(rows))};
  }

  // Takes the rows of the range.
  ConvertResult gather() {
    auto *of = ragged(1);
    bool bare = of && std::holds_alternative<std::monostate>(of->rows);
    if (ragged(0) || !bare || !call_.has(0) || call_.shape(0).empty() ||
        normalAxis(node_.integer("axis", 0), call_.shape(0).size()) != 0)
      return unsupported();
    return std::vector<Operand>{withRows(operands_[0])};
  }

  bool isProduct() const {
    auto *rows = ragged(0);
    return rows && operands_.size() == 2 && !ragged(1) && std::holds_alternative<std::monostate>(rows->factor) &&
           !std::holds_alternative<std::monostate>(rows->rows) && call_.has(1) && call_.shape(1).size() == 2 &&
           onnximport::shapeOf(rows->rows).size() == 2;
  }

  ConvertResult unsupported() const {
    return error("reads rows of which the number depends on the values of inputs: supported are Gather of them, "
                 "products, elementwise ops, and the Concat of those of all experts");
  }

  // Returns all rows of a ragged operand, of which those in its range count.
  Result<Operand> allRows(const RaggedRows &ragged) const {
    if (std::holds_alternative<std::monostate>(ragged.rows))
      return error("reads a range of which the length depends on the values of inputs: it may only index rows");
    if (std::holds_alternative<std::monostate>(ragged.factor))
      return ragged.rows;
    ::onnx::NodeProto product;
    product.set_name(node_.name());
    product.set_op_type("MatMul");
    auto made = convert_(Node(product, node_.opset), {ragged.rows, ragged.factor});
    if (!made)
      return made.takeError();
    return std::move(made->front());
  }

  Value valueOf(const Operand &operand, UseKind role = UseKind::Plain) const {
    const Operand *pointer = &operand;
    return call_.with(pointer).value(0, role);
  }

  static bool isSame(const Operand &a, const Operand &b) {
    auto *left = std::get_if<ComputedValue>(&a), *right = std::get_if<ComputedValue>(&b);
    return left && right && left->value == right->value;
  }

  static bool sameRange(const RaggedRows &a, const RaggedRows &b) { return a.start == b.start && a.end == b.end; }

  // Converts a node that works on each row by itself.
  ConvertResult rowByRow() {
    static const llvm::StringSet<> ops = {"Add", "Sub", "Mul", "Div", "Neg", "Abs", "Exp", "Log", "Sqrt", "Pow", "Min",
                                          "Max", "Clip", "Cast", "Relu", "Gelu", "Sigmoid", "Tanh", "Erf", "Softplus",
                                          "Swish", "HardSwish", "Where", "Split", "Slice", "MatMul", "Reciprocal",
                                          "Identity", "Elu", "LeakyRelu"};
    llvm::StringRef op = node_.op();
    if (!ops.contains(op))
      return unsupported();
    size_t rank = 0;
    int64_t rows = 0;
    std::vector<Operand> dense;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!ragged(i)) {
        dense.push_back(operands_[i]);
        continue;
      }
      auto all = sameRange(*ragged(i), first()) ? allRows(*ragged(i)) : Result<Operand>(error("mixes rows of two ranges"));
      if (!all)
        return all.takeError();
      Shape shape = onnximport::shapeOf(*all);
      if (shape.empty() || (rank && (shape.size() != rank || shape[0] != rows)))
        return unsupported();
      rank = shape.size();
      rows = shape[0];
      dense.push_back(std::move(*all));
    }
    bool moves = op == "Split" || op == "Slice";
    // Other operands must be the same for all rows.
    for (size_t i = 0; i < operands_.size(); ++i)
      if (!moves && !ragged(i) && call_.has(i)) {
        Shape shape = call_.shape(i);
        bool factor = op == "MatMul" && i == 1 && shape.size() == 2;
        if (!factor && (shape.size() > rank || (shape.size() == rank && shape[0] != 1)))
          return unsupported();
      }
    if ((op == "MatMul" && (!ragged(0) || ragged(1))) || (moves && (ragged(1) || ragged(2))))
      return unsupported();
    auto made = convert_(node_, dense);
    if (!made)
      return made;
    for (Operand &result : *made) {
      Shape shape = onnximport::shapeOf(result);
      if (shape.size() != rank || shape[0] != rows)
        return unsupported();
      result = withRows(std::move(result));
    }
    return made;
  }

  //===-- All experts -----------------------------------------------------------===//

  // Joins ranges that follow one another from row 0 on: the result has all rows.
  ConvertResult concat() {
    Value reached;
    Shape shape;
    for (size_t i = 0; i < operands_.size(); ++i) {
      auto *rows = ragged(i);
      if (!rows || rows->start != reached || std::holds_alternative<std::monostate>(rows->rows))
        return error("joins rows of which the number depends on the values of inputs: supported is the Concat of ranges "
                     "of which the first begins at row 0 and each other one where the last ended");
      Shape own = onnximport::shapeOf(rows->rows);
      if (!shape.empty() && own[0] != shape[0])
        return unsupported();
      shape = own;
      reached = rows->end;
    }
    if (normalAxis(node_.integer("axis", 0), shape.size()) != 0)
      return unsupported();
    Value experts = expertOfRow(shape[0]);
    if (Result<Value> product = groupedProduct(experts); !product || *product)
      return product ? single(*product) : ConvertResult(product.takeError());
    Value joined;
    for (size_t i = 0; i < operands_.size(); ++i) {
      auto all = allRows(*ragged(i));
      if (!all)
        return all.takeError();
      Value own = valueOf(*all);
      Shape column(graph::shapeOf(own).size(), 1);
      column[0] = shape[0];
      if (joined && joined.getType() != own.getType())
        return unsupported();
      Value mine = call_.build.reshape(call_.build.compare(experts, call_.scalarLike(i, experts), graph::Predicate::eq), column);
      joined = call_.build.select(mine, own, joined ? joined : call_.scalarLike(0, own));
    }
    return single(joined);
  }

  // Returns the number of the expert in whose range each row lies: that of the ranges which end before it.
  Value expertOfRow(int64_t rows) {
    graph::Build &b = call_.build;
    std::vector<Value> ends;
    for (size_t i = 0; i < operands_.size(); ++i)
      ends.push_back(b.reshape(ragged(i)->end, {1}));
    Value bounds = b.reshape(b.concat(ends, 0), {1, int64_t(ends.size())});
    Value behind = b.compare(indicesAlong(call_, rows, 0, 2), bounds, graph::Predicate::ge);
    return b.reduce(integers(call_, behind), graph::ReduceKind::sum, {1});
  }

  // Returns the view of a whole stored tensor, perhaps transposed, of which the factors are the matrices
  // in turn; nullopt if there is none.
  std::optional<View> stackOfFactors() const {
    auto *first = std::get_if<View>(&ragged(0)->factor);
    if (!first)
      return std::nullopt;
    Shape source = call_.storedShape(first->tensor);
    if (source.size() != 3)
      return std::nullopt;
    for (Shape order : {Shape{0, 1, 2}, Shape{0, 2, 1}, Shape{1, 0, 2}, Shape{1, 2, 0}, Shape{2, 0, 1}, Shape{2, 1, 0}}) {
      View stack = View::whole(first->tensor, source).transposed(order);
      bool fits = stack.shape[0] == int64_t(operands_.size());
      for (size_t i = 0; fits && i < operands_.size(); ++i) {
        auto *own = std::get_if<View>(&ragged(i)->factor);
        fits = own && own->tensor == first->tensor && own->offset == stack.offset + int64_t(i) * stack.strides[0] &&
               own->shape == Shape{stack.shape[1], stack.shape[2]} &&
               own->strides == Shape{stack.strides[1], stack.strides[2]};
      }
      if (fits)
        return stack;
    }
    return std::nullopt;
  }

  // Returns the product of each row with the matrix of its expert, null if that is not what is joined.
  Result<Value> groupedProduct(Value experts) {
    graph::Build &b = call_.build;
    std::vector<Value> matrices;
    const Operand &rows = ragged(0)->rows;
    for (size_t i = 0; i < operands_.size(); ++i)
      if (std::holds_alternative<std::monostate>(ragged(i)->factor) || !isSame(ragged(i)->rows, rows) ||
          onnximport::shapeOf(ragged(i)->factor) != onnximport::shapeOf(ragged(0)->factor))
        return Value();
    Shape matrix = onnximport::shapeOf(ragged(0)->factor);
    Value x = valueOf(rows), weights;
    int64_t count = graph::shapeOf(x)[0];
    if (matrix[0] != graph::shapeOf(x)[1])
      return error("rows of ", graph::shapeOf(x)[1], " elements do not multiply matrices of shape ", toText(matrix));
    if (auto stack = stackOfFactors()) {
      weights = valueOf(*stack, UseKind::Weight);
    } else {
      for (size_t i = 0; i < operands_.size(); ++i)
        matrices.push_back(b.reshape(valueOf(ragged(i)->factor, UseKind::Weight), {1, matrix[0], matrix[1]}));
      weights = b.concat(matrices, 0);
    }
    auto type = RankedTensorType::get({count, 1, matrix[1]}, b.builder.getF32Type());
    Value product = graph::GroupedMatmulOp::create(b.builder, b.loc, type, x, weights, b.reshape(experts, {count, 1}),
                                                   Value());
    return b.reshape(product, {count, matrix[1]});
  }
};

} // namespace

bool llmc::onnximport::isOnRaggedRows(const Node &node, llvm::ArrayRef<Operand> operands) {
  if (llvm::any_of(operands, isRagged))
    return true;
  return node.qualifiedOp() == "Range" && llvm::any_of(operands, [](const Operand &operand) {
           return std::holds_alternative<ComputedValue>(operand);
         });
}

ConvertResult llmc::onnximport::convertRaggedRows(NodeAdaptor &call, llvm::ArrayRef<Operand> operands,
                                                  ConvertTensors convert) {
  return Converter(call, operands, convert).run();
}
