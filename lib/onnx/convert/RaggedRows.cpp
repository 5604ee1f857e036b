#include "lib/onnx/convert/RaggedRows.h"

#include "lib/onnx/convert/Formula.h"

#include <limits>

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
    if (op == "NonZero")
      return nonZero();
    if (op == "Shape")
      return shapeOfRows();
    if (llvm::any_of(operands_, [](const Operand &o) { return isRagged(o) && std::get<Ragged>(o)->isShape; }))
      return onShape(op);
    if (op == "Gather")
      return gather();
    if (op == "MatMul" && isProduct())
      return std::vector<Operand>{withRows(ragged(0)->rows, 0, operands_[1])};
    if (op == "Concat" && llvm::all_of(operands_, isRagged) && first().end)
      return concat();
    if (op == "Split")
      if (auto parts = splitSelected())
        return *parts;
    if (op == "ScatterElements" || op == "ScatterND")
      return scatter(op);
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

  // Returns another operand of which the rows count that count in the first ragged one.
  Operand withRows(Operand rows, int64_t dim = 0, Operand factor = Operand(), bool isShape = false) const {
    RaggedRows some = first();
    some.rows = std::move(rows);
    some.factor = std::move(factor);
    some.dim = dim;
    some.isShape = isShape;
    return std::make_shared<const RaggedRows>(std::move(some));
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

  // Converts NonZero: all indices of a tensor, of which those of other elements than 0 count.
  ConvertResult nonZero() {
    Shape shape = call_.shape(0);
    int64_t rank = shape.size(), count = *countElements(shape);
    if (rank == 0 || count == 0)
      return error("needs an operand with dims and elements");
    if (support::Status s = checkHostSize({rank, count}); !s)
      return s.takeError();
    Value flat = call_.build.reshape(call_.value(0), {count});
    if (!graph::elementOf(flat).isInteger(1))
      flat = call_.build.compare(flat, call_.scalarLike(0, flat), graph::Predicate::ne);
    HostTensor all(Element::I64, {rank, count});
    for (int64_t i = 0; i < count; ++i)
      for (int64_t d = rank, rest = i; d-- > 0; rest /= shape[d])
        all.ints[d * count + i] = rest % shape[d];
    RaggedRows rows;
    rows.mask = flat;
    rows.dim = 1;
    rows.rows = known(std::move(all));
    return std::vector<Operand>{std::make_shared<const RaggedRows>(std::move(rows))};
  }

  // Takes the rows that count, or elements of all of them.
  ConvertResult gather() {
    int64_t axis = node_.integer("axis", 0);
    if (auto *indexed = ragged(0)) {
      auto rows = allRows(*indexed);
      if (!rows)
        return rows.takeError();
      Shape shape = onnximport::shapeOf(*rows);
      auto at = normalAxis(axis, shape.size());
      if (!at || ragged(1) || !call_.has(1))
        return unsupported();
      if (*at == indexed->dim) {
        const HostTensor *number = call_.constant(1);
        if (!number || number->size() != 1)
          return unsupported();
        auto picked = selected(*indexed, number->ints[0]);
        if (!picked || number->shape.size() > 1)
          return picked ? unsupported() : ConvertResult(picked.takeError());
        Shape result = onnximport::shapeOf(*rows);
        result.erase(result.begin() + *at);
        result.insert(result.begin() + *at, number->shape.begin(), number->shape.end());
        return single(call_.build.reshape(*picked, result));
      }
      auto made = convert_(node_, {*rows, operands_[1]});
      if (!made)
        return made;
      int64_t moved = *at < indexed->dim ? indexed->dim + int64_t(call_.shape(1).size()) - 1 : indexed->dim;
      return std::vector<Operand>{withRows(std::move(made->front()), moved)};
    }
    auto *of = ragged(1);
    auto at = call_.has(0) ? normalAxis(axis, call_.shape(0).size()) : std::nullopt;
    if (!at)
      return unsupported();
    if (std::holds_alternative<std::monostate>(of->rows))
      return *at == 0 ? ConvertResult(std::vector<Operand>{withRows(operands_[0])}) : unsupported();
    auto rows = allRows(*of);
    if (!rows)
      return rows.takeError();
    auto made = convert_(node_, {operands_[0], *rows});
    if (!made)
      return made;
    return std::vector<Operand>{withRows(std::move(made->front()), *at + of->dim)};
  }

  // Returns the `number`-th index where the mask is true, the number of all if there are fewer, as a scalar.
  Result<Value> selected(const RaggedRows &of, int64_t number) const {
    auto *constant = std::get_if<KnownConstant>(&of.rows);
    int64_t count = of.mask ? graph::shapeOf(of.mask)[0] : 0;
    auto all = constant ? (*constant)->dense() : Result<HostTensor>(error(""));
    bool counts = all && all->size() == count && number >= 0;
    for (int64_t i = 0; counts && i < count; ++i)
      counts = all->ints[i] == i;
    if (!counts)
      return error("takes one of the rows of which the number depends on the values of inputs: supported is one of the "
                   "indices of a mask of experts");
    graph::Build &b = call_.build;
    Value mask = integers(call_, of.mask);
    Value reached = graph::CumsumOp::create(b.builder, b.loc, mask.getType(), mask, 0, false, false);
    Value before = b.compare(reached, call_.scalarLike(number, reached), graph::Predicate::le);
    return b.reduce(integers(call_, before), graph::ReduceKind::sum, {0});
  }

  // Splits the indices of a mask of experts into one each; nullopt if the node splits other dims.
  std::optional<ConvertResult> splitSelected() {
    auto *of = ragged(0);
    if (!of || std::holds_alternative<std::monostate>(of->rows))
      return std::nullopt;
    Shape shape = onnximport::shapeOf(of->rows);
    if (normalAxis(node_.integer("axis", 0), shape.size()) != of->dim)
      return std::nullopt;
    std::vector<Operand> parts;
    int64_t all = shape[of->dim];
    auto sizes = call_.has(1) ? knownIntegers(call_, 1) : Result<Shape>(Shape(node_.proto->output_size(), 1));
    if (!sizes)
      return ConvertResult(sizes.takeError());
    for (auto [i, size] : llvm::enumerate(*sizes)) {
      auto part = size == 1 ? selected(*of, i) : Result<Value>(error("splits rows of which the number depends on the "
                                                                     "values of inputs: supported are parts of one"));
      if (!part)
        return ConvertResult(part.takeError());
      parts.push_back(call_.build.reshape(*part, Shape(shape.size(), 1)));
    }
    // A mask of experts may name one more, for tokens that take none.
    if (int64_t count = parts.size(); count + 1 < all)
      emitRemark(call_.build.loc) << "takes the first " << count << " of " << all
                                  << " experts that may have tokens, as in the exporter's example: as written, tokens "
                                     "of any other are left out";
    return ConvertResult(std::move(parts));
  }

  //===-- Shapes ----------------------------------------------------------------===//

  ConvertResult shapeOfRows() {
    auto rows = allRows(first());
    if (!rows)
      return rows.takeError();
    Shape shape = onnximport::shapeOf(*rows);
    int64_t rank = shape.size(), dim = first().dim;
    auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    int64_t start = bound(node_.integer("start", 0)), end = bound(node_.integer("end", rank));
    Operand sizes = known(HostTensor::vector(llvm::ArrayRef<int64_t>(shape).slice(start, std::max<int64_t>(end - start, 0))));
    if (dim < start || dim >= end)
      return std::vector<Operand>{sizes};
    return std::vector<Operand>{withRows(std::move(sizes), dim - start, Operand(), /*isShape=*/true)};
  }

  // Converts what moves the sizes of rows, or makes a tensor of these sizes. Where the unknown one is
  // read otherwise, its number would have to be known.
  ConvertResult onShape(llvm::StringRef op) {
    std::vector<Operand> dense;
    const RaggedRows *sizes = nullptr, *rows = nullptr;
    for (size_t i = 0; i < operands_.size(); ++i) {
      auto *own = ragged(i);
      auto all = own ? allRows(*own) : Result<Operand>(operands_[i]);
      if (!all)
        return all.takeError();
      if (own)
        (own->isShape ? sizes : rows) = own;
      dense.push_back(std::move(*all));
    }
    if ((op == "Reshape" || op == "Expand") && ragged(1) && ragged(1)->isShape && rows && rows->hasSameRows(*sizes))
      return moved(dense, *rows);
    if (rows || (op != "Gather" && op != "Concat" && op != "Cast" && op != "Identity" && op != "Unsqueeze"))
      return unsupported();
    // Follow the unknown element: mark it by -1, which no size is.
    std::vector<Operand> marked = dense;
    for (size_t i = 0; i < operands_.size(); ++i)
      if (auto *own = ragged(i)) {
        auto vector = std::get<KnownConstant>(dense[i])->dense();
        if (!vector || !own->hasSameRows(*sizes))
          return unsupported();
        vector->ints[own->dim] = std::numeric_limits<int64_t>::min();
        marked[i] = known(std::move(*vector));
      }
    auto made = convert_(node_, dense), traced = convert_(node_, marked);
    if (!made || !traced)
      return made ? std::move(traced) : std::move(made);
    auto *constant = std::get_if<KnownConstant>(&traced->front());
    auto vector = constant ? (*constant)->dense() : Result<HostTensor>(error(""));
    if (!vector)
      return unsupported();
    auto at = llvm::find(vector->ints, std::numeric_limits<int64_t>::min());
    if (at == vector->ints.end())
      return made;
    if (llvm::count(vector->ints, std::numeric_limits<int64_t>::min()) > 1)
      return unsupported();
    return std::vector<Operand>{withRows(std::move(made->front()), at - vector->ints.begin(), Operand(), /*isShape=*/true)};
  }

  // Converts a Reshape, Expand, Squeeze or Unsqueeze whose operands are given: the rows stay a dim.
  ConvertResult moved(llvm::ArrayRef<Operand> operands, const RaggedRows &of) {
    Shape before = onnximport::shapeOf(operands[0]);
    auto made = convert_(node_, operands);
    if (!made)
      return made;
    Shape after = onnximport::shapeOf(made->front());
    int64_t count = before[of.dim];
    if (node_.op() == "Expand") {
      int64_t dim = of.dim + int64_t(after.size()) - int64_t(before.size());
      if (dim < 0 || after[dim] != count)
        return unsupported();
      return std::vector<Operand>{withRows(std::move(made->front()), dim)};
    }
    int64_t leading = *countElements(llvm::ArrayRef<int64_t>(before).take_front(of.dim)), reached = 1;
    for (size_t dim = 0; dim < after.size(); reached *= after[dim++])
      if (after[dim] == count && reached == leading)
        return std::vector<Operand>{withRows(std::move(made->front()), dim)};
    return unsupported();
  }

  //===-- Rows back to their tokens ---------------------------------------------===//

  // Adds rows that count to those of a tensor, or puts them there: no two are put to the same place.
  ConvertResult scatter(llvm::StringRef op) {
    auto *ids = ragged(1), *updates = ragged(2);
    std::string how = node_.text("reduction", "none");
    if (ragged(0) || !ids || !updates || !ids->hasSameRows(*updates) || !ids->mask || (how != "none" && how != "add"))
      return unsupported();
    auto at = allRows(*ids), rows = allRows(*updates);
    if (!at || !rows)
      return at ? rows.takeError() : at.takeError();
    graph::Build &b = call_.build;
    Value added = valueOf(*rows);
    Shape column(graph::shapeOf(added).size(), 1);
    column[updates->dim] = graph::shapeOf(added)[updates->dim];
    Value mask = b.reshape(ids->mask, column);
    ::onnx::NodeProto node = *node_.proto;
    node.clear_attribute();
    auto attribute = [&](const char *name) {
      ::onnx::AttributeProto &one = *node.add_attribute();
      one.set_name(name);
      return &one;
    };
    attribute("axis")->set_i(node_.integer("axis", 0));
    attribute("reduction")->set_s("add");
    Node adding(node, std::max<int64_t>(node_.opset, 18));
    bool bare = op == "ScatterElements" && *normalAxis(node_.integer("axis", 0), call_.shape(0).size()) == 0;
    if (auto wide = bare ? rowIds(*at) : Value(); wide && graph::shapeOf(added).size() == 2 && ids->dim == 0)
      return single(scatterRows(wide, b.select(mask, added, call_.scalarLike(0, added)), how == "add"));
    Operand zeros = b.select(mask, added, call_.scalarLike(0, added));
    if (how == "add")
      return convert_(adding, {operands_[0], *at, zeros});
    return unsupported();
  }

  // Returns the row [rows] that all elements of ids [rows, features] name, null if they differ.
  Value rowIds(const Operand &ids) const {
    auto *constant = std::get_if<KnownConstant>(&ids);
    if (constant && (*constant)->held.shape.size() == 2 && (*constant)->held.shape[1] == 1) {
      HostTensor flat = (*constant)->held;
      flat.shape = {flat.size()};
      return flat.shape[0] == (*constant)->shape[0] ? call_.materialize(flat) : Value();
    }
    return {};
  }

  Value scatterRows(Value ids, Value updates, bool adds) const {
    graph::Build &b = call_.build;
    Value data = call_.value(0);
    auto add = [&](Value values, llvm::ArrayRef<int64_t> shape) -> Value {
      auto type = RankedTensorType::get(shape, graph::elementOf(values));
      return graph::ScatterAddOp::create(b.builder, b.loc, type, ids, values, Value());
    };
    Value sums = add(updates, graph::shapeOf(data));
    const HostTensor *old = call_.compact(0);
    bool zeros = old && llvm::all_of(old->floats, [](double x) { return x == 0; });
    if (adds || zeros)
      return zeros ? sums : b.add(data, sums);
    Shape rows{graph::shapeOf(data)[0]};
    Value times = add(floats(call_, first().mask), rows);
    Value named = b.compare(b.reshape(times, {rows[0], 1}), call_.scalar(0), graph::Predicate::gt);
    return b.select(named, sums, data);
  }

  bool isProduct() const {
    auto *rows = ragged(0);
    return rows && rows->end && operands_.size() == 2 && !ragged(1) && std::holds_alternative<std::monostate>(rows->factor) &&
           !std::holds_alternative<std::monostate>(rows->rows) && call_.has(1) && call_.shape(1).size() == 2 &&
           onnximport::shapeOf(rows->rows).size() == 2;
  }

  ConvertResult unsupported() const {
    return error("reads rows of which the number depends on the values of inputs: supported are Gather of them, "
                 "products, elementwise ops, and the Concat or the sum of those of all experts");
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

  // Converts a node that works on each row by itself.
  ConvertResult rowByRow() {
    static const llvm::StringSet<> ops = {"Add", "Sub", "Mul", "Div", "Neg", "Abs", "Exp", "Log", "Sqrt", "Pow", "Min",
                                          "Max", "Clip", "Cast", "Relu", "Gelu", "Sigmoid", "Tanh", "Erf", "Softplus",
                                          "Swish", "HardSwish", "Where", "Split", "Slice", "MatMul", "Reciprocal",
                                          "Identity", "Elu", "LeakyRelu", "Transpose", "Reshape", "Expand", "Squeeze",
                                          "Unsqueeze", "Concat", "Gemm", "Mod", "Equal", "Less", "Greater", "Not", "And"};
    llvm::StringRef op = node_.op();
    if (!ops.contains(op))
      return unsupported();
    size_t rank = 0;
    int64_t dim = 0, rows = 0;
    std::vector<Operand> dense;
    for (size_t i = 0; i < operands_.size(); ++i) {
      auto *own = ragged(i);
      if (!own) {
        dense.push_back(operands_[i]);
        continue;
      }
      auto all = own->hasSameRows(first()) ? allRows(*own) : Result<Operand>(error("mixes rows of two experts"));
      if (!all)
        return all.takeError();
      Shape shape = onnximport::shapeOf(*all);
      if (shape.empty() || (rank && (shape.size() != rank || shape[own->dim] != rows || own->dim != dim)))
        return unsupported();
      rank = shape.size();
      dim = own->dim;
      rows = shape[dim];
      dense.push_back(std::move(*all));
    }
    bool moves = op == "Split" || op == "Slice" || op == "Transpose" || op == "Reshape" || op == "Expand" ||
                 op == "Squeeze" || op == "Unsqueeze";
    for (size_t i = 1; i < operands_.size(); ++i)
      if (moves && ragged(i))
        return unsupported();
    if (op == "Reshape" || op == "Expand" || op == "Squeeze" || op == "Unsqueeze")
      return moved(dense, first());
    // Other operands must be the same for all rows.
    bool product = op == "MatMul" || op == "Gemm";
    for (size_t i = 0; i < operands_.size(); ++i)
      if (!moves && !ragged(i) && call_.has(i)) {
        Shape shape = call_.shape(i);
        bool factor = product && i == 1 && shape.size() == 2;
        int64_t at = dim + int64_t(shape.size()) - int64_t(rank);
        if (!factor && (shape.size() > rank || (at >= 0 && shape[at] != 1)))
          return unsupported();
      }
    int64_t axis = normalAxis(node_.integer("axis", 0), rank).value_or(dim);
    bool alongRows = (op == "Split" || op == "Concat") && axis == dim;
    if (product && (!ragged(0) || ragged(1) || ragged(2) || dim + 1 == int64_t(rank) || node_.integer("transA", 0)))
      return unsupported();
    if (alongRows)
      return unsupported();
    auto made = convert_(node_, dense);
    if (!made)
      return made;
    if (op == "Transpose") {
      auto order = permutationOf(node_, rank);
      if (!order)
        return order.takeError();
      dim = llvm::find(*order, dim) - order->begin();
    }
    for (Operand &result : *made) {
      Shape shape = onnximport::shapeOf(result);
      if (shape.size() != rank || shape[dim] != rows)
        return unsupported();
      result = withRows(std::move(result), dim);
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
      if (!rows || rows->start != reached || rows->dim != 0 || std::holds_alternative<std::monostate>(rows->rows))
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
  std::string op = node.qualifiedOp();
  return (op == "Range" || op == "NonZero") && llvm::any_of(operands, [](const Operand &operand) {
           return std::holds_alternative<ComputedValue>(operand);
         });
}

ConvertResult llmc::onnximport::convertRaggedRows(NodeAdaptor &call, llvm::ArrayRef<Operand> operands,
                                                  ConvertTensors convert) {
  return Converter(call, operands, convert).run();
}
