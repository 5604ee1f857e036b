// Defines the meaning of each instruction of the plan dialect.
#include "lib/verify/interpret/PlanInterpreterParts.h"


#include <cmath>
#include <numeric>

using namespace mlir;

namespace llmc::verify::plan_interpreter {

Tensor PlanInterpreter::read(const Rank &rank, Value buffer) const {
  const CellRange &place = rank.stage->cellRanges.find(buffer)->second;
  Tensor value(place.shape);
  const double *from = &rank.cells[place.offset + rank.slots[place.pool] * place.stride];
  for (int64_t i = 0, n = value.size(); i < n; ++i)
    value.data[i] = from[i * place.step];
  return value;
}

void PlanInterpreter::write(Rank &rank, Value buffer, const Tensor &value) const {
  const CellRange &place = rank.stage->cellRanges.find(buffer)->second;
  double *to = &rank.cells[place.offset + rank.slots[place.pool] * place.stride];
  for (int64_t i = 0, n = value.size(); i < n; ++i) {
    to[i * place.step] = value.data[i];
    for (int64_t k = 1; k < place.step; ++k)
      to[i * place.step + k] = NAN; // Invalidate the other bytes of a wide element.
  }
}

// Returns whether the launch may overwrite `read` in place: it is read only element by element,
// or as the operand of a reduction of its own shape.
static bool readsWhole(plan::LaunchOp op, Value read) {
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  for (auto [argument, buffer] : llvm::zip(op.getBody().front().getArguments(), op.getReads())) {
    if (buffer != read)
      continue;
    for (Operation *user : argument.getUsers()) {
      auto compute = dyn_cast<graph::GraphOpInterface>(user);
      bool elementwise = compute && compute.getEmitClass() == graph::EmitClass::Elementwise &&
                         shapeOf(user->getResult(0)) == shapeOf(argument);
      bool reduces = compute && (compute.getEmitClass() == graph::EmitClass::RowReduction ||
                                 isa<graph::ReduceOp>(user)) &&
                     shapeOf(user->getOperand(0)) == shapeOf(argument);
      if (!elementwise && !reduces)
        return false;
    }
  }
  return true;
}

// Checks that a launch overwrites a buffer that it reads only where it reads element i to write
// element i.
LogicalResult PlanInterpreter::checkInPlace(const Rank &rank, plan::LaunchOp op) const {
  for (Value write : op.getWrites())
    for (Value read : op.getReads()) {
      const CellRange &to = rank.stage->cellRanges.find(write)->second;
      const CellRange &from = rank.stage->cellRanges.find(read)->second;
      int64_t a = to.offset + rank.slots[to.pool] * to.stride;
      int64_t b = from.offset + rank.slots[from.pool] * from.stride;
      if (a >= b + from.cells || b >= a + to.cells)
        continue;
      if (!readsWhole(op, read) || a != b || tensorOf(read) != tensorOf(write))
        return op.emitOpError("writes over a buffer that it reads");
    }
  return success();
}

LogicalResult PlanInterpreter::launch(Rank &rank, plan::LaunchOp op) {
  if (failed(checkInPlace(rank, op)))
    return failure();
  Block &body = op.getBody().front();
  llvm::DenseMap<Value, Tensor> values;
  for (auto [i, buffer] : llvm::enumerate(op.getReads()))
    values[body.getArgument(i)] = read(rank, buffer);
  if (ArrayAttr scalars = op.getScalarsAttr())
    for (auto [i, terms] : llvm::enumerate(scalars.getAsRange<DenseI64ArrayAttr>())) {
      Tensor scalar(std::vector<int64_t>{});
      scalar.data[0] = terms[0];
      for (size_t k = 1; k < static_cast<size_t>(terms.size()); ++k)
        scalar.data[0] += terms[k] * rank.coordinate[k - 1];
      values[body.getArgument(op.getReads().size() + i)] = scalar;
    }
  for (Operation &inner : body.without_terminator()) {
    auto graphOp = dyn_cast<graph::GraphOpInterface>(&inner);
    if (!graphOp)
      return inner.emitOpError("cannot be evaluated");
    SmallVector<const Tensor *> inputs;
    for (Value operand : inner.getOperands())
      inputs.push_back(&values[operand]);
    std::vector<Tensor> outputs = graph::evaluateOp(graphOp, inputs);
    for (auto [result, output] : llvm::zip(inner.getResults(), outputs))
      values[result] = std::move(output);
  }
  for (auto [buffer, value] : llvm::zip(op.getWrites(), body.getTerminator()->getOperands()))
    write(rank, buffer, values[value]);
  return success();
}

void PlanInterpreter::matmul(Rank &rank, plan::MatmulOp op) {
  auto &block = products[op];
  if (!block) {
    block = std::make_unique<Block>();
    Value a = block->addArgument(tensorOf(op.getLhs()), op.getLoc());
    Value b = block->addArgument(tensorOf(op.getRhs()), op.getLoc());
    OpBuilder builder(op.getContext());
    builder.setInsertionPointToEnd(block.get());
    graph::MatmulOp::create(builder, op.getLoc(), tensorOf(op.getOut()), op.getEquation(), a, b);
  }
  Tensor a = read(rank, op.getLhs()), b = read(rank, op.getRhs());
  Tensor product = graph::evaluateOp(cast<graph::GraphOpInterface>(block->front()), {&a, &b})[0];
  if (op.getAccumulate()) {
    Tensor before = read(rank, op.getOut());
    for (int64_t i = 0; i < product.size(); ++i)
      product.data[i] += before.data[i];
  }
  write(rank, op.getOut(), product);
}

// Evaluates a product of routed rows by the op of graph that it is.
void PlanInterpreter::groupedMatmul(Rank &rank, plan::GroupedMatmulOp op) {
  auto &block = products[op];
  std::optional<ArrayRef<int64_t>> terms = op.getOffset();
  if (!block) {
    block = std::make_unique<Block>();
    auto argument = [&](RankedTensorType type) { return block->addArgument(type, op.getLoc()); };
    Value a = argument(tensorOf(op.getLhs())), b = argument(tensorOf(op.getRhs()));
    Value routes = argument(tensorOf(op.getRoutes()));
    OpBuilder builder(op.getContext());
    Value offset = terms ? argument(RankedTensorType::get({}, builder.getI64Type())) : Value();
    builder.setInsertionPointToEnd(block.get());
    if (op.isOuter())
      graph::GroupedOuterOp::create(builder, op.getLoc(), tensorOf(op.getOut()), a, b, routes, offset);
    else
      graph::GroupedMatmulOp::create(builder, op.getLoc(), tensorOf(op.getOut()), a, b, routes, offset,
                                     op.getTransposedAttr());
  }
  std::vector<Tensor> operands = {read(rank, op.getLhs()), read(rank, op.getRhs()), read(rank, op.getRoutes())};
  if (terms) {
    Tensor &offset = operands.emplace_back(std::vector<int64_t>{});
    offset.data[0] = terms->front();
    for (auto [coefficient, coordinate] : llvm::zip(terms->drop_front(), rank.coordinate))
      offset.data[0] += coefficient * coordinate;
  }
  SmallVector<const Tensor *> inputs;
  for (const Tensor &operand : operands)
    inputs.push_back(&operand);
  Tensor product = graph::evaluateOp(cast<graph::GraphOpInterface>(block->front()), inputs)[0];
  if (op.getAccumulate()) {
    Tensor before = read(rank, op.getOut());
    for (int64_t i = 0; i < product.size(); ++i)
      product.data[i] += before.data[i];
  }
  write(rank, op.getOut(), product);
}

// Returns the input binding of the buffer that a feed writes, through the views of it; null if it
// has none.
static plan::InputBindingAttr bindingOf(plan::FeedOp op) {
  auto buffer = op.getDst().getDefiningOp<plan::BufferOp>();
  while (buffer && buffer.getParent())
    buffer = buffer.getParent().getDefiningOp<plan::BufferOp>();
  return buffer ? buffer.getBindingAs<plan::InputBindingAttr>() : plan::InputBindingAttr();
}

// Returns the index in the model's order of position `at` of a permuted dim of `size` elements.
static int64_t beforePermutation(ArrayRef<int64_t> blockOrder, int64_t size, int64_t at) {
  int64_t block = size / static_cast<int64_t>(blockOrder.size());
  return blockOrder[at / block] * block + at % block;
}

// Feeds an input whose binding records how its dims are sharded or permuted.
LogicalResult PlanInterpreter::feedPart(Rank &rank, plan::FeedOp op, plan::InputBindingAttr binding,
                                    int64_t microBatch, const Tensor &whole) {
  Tensor own(tensorOf(op.getDst()).getShape().vec());
  size_t dimCount = own.shape.size();
  std::vector<int64_t> starts(dimCount, 0);
  ArrayAttr dims = binding.getDims();
  for (size_t d = 0; d < dimCount; ++d) {
    SmallVector<StringAttr> axes;
    if (dims && d < dims.size())
      axes = llvm::to_vector(cast<ArrayAttr>(dims[d]).getAsRange<StringAttr>());
    else if (d == 0) // By default, rows are sharded over the data axes.
      axes = mesh.getAxes(planfile::AxisRole::Data);
    int64_t before = d == 0 ? microBatch * parallel::getGroupSize(mesh, axes) : 0;
    starts[d] = (before + partOf(rank, axes)) * own.shape[d];
  }
  graph::LoaderAttr loader = binding.getLoader();
  bool permuted = loader && loader.isPermuted();
  std::vector<int64_t> strides = whole.strides();
  if (whole.shape.size() != dimCount)
    return op.emitOpError("input ") << op.getInput() << " is given with another rank";
  std::string fault = permuted ? loader.describeMisfit(whole.shape, /*isShard=*/false) : "";
  if (!fault.empty())
    return op.emitOpError() << fault << ", got " << loader;
  for (int64_t i = 0, n = own.size(); i < n; ++i) {
    int64_t rest = i, element = 0;
    for (size_t d = dimCount; d-- > 0; rest /= own.shape[d]) {
      int64_t at = starts[d] + rest % own.shape[d];
      if (at >= whole.shape[d])
        return op.emitOpError("micro-batch ") << microBatch << " is not in the step";
      if (permuted && loader.getPermutedDim() == static_cast<int64_t>(d))
        at = beforePermutation(loader.getBlockOrder(), whole.shape[d], at);
      element += at * strides[d];
    }
    own.data[i] = whole.data[element];
  }
  write(rank, op.getDst(), own);
  return success();
}

// Feeds this rank's rows of the step, [(micro-batch * dp + dp coordinate) * rows, ...), or all of
// an input that is not sharded.
LogicalResult PlanInterpreter::feed(Rank &rank, plan::FeedOp op, int64_t microBatch) {
  auto found = data->inputs.find(op.getInput().str());
  if (found == data->inputs.end())
    return op.emitOpError("no value is given for the input ") << op.getInput();
  plan::InputBindingAttr binding = bindingOf(op);
  if (binding && (binding.getDims() || (binding.getLoader() && binding.getLoader().isPermuted())))
    return feedPart(rank, op, binding, microBatch, found->second);
  Tensor own(tensorOf(op.getDst()).getShape().vec());
  int64_t place = microBatch;
  for (StringAttr axis : mesh.getAxes(planfile::AxisRole::Data))
    place = place * mesh.getSize(axis.getValue()) + rank.coordinate[mesh.getIndex(axis.getValue())];
  if (own.size() == found->second.size())
    place = 0;
  if ((place + 1) * own.size() > found->second.size())
    return op.emitOpError("micro-batch ") << microBatch << " is not in the step";
  std::copy_n(found->second.data.begin() + place * own.size(), own.size(), own.data.begin());
  write(rank, op.getDst(), own);
  return success();
}

FailureOr<int64_t> PlanInterpreter::peer(const Rank &rank, Operation &op, StringRef axis,
                                         int64_t delta, bool wrap) {
  int index = mesh.getIndex(axis);
  int64_t at = index < 0 ? -1 : rank.coordinate[index] + delta;
  if (index >= 0 && wrap)
    at = llvm::mod(at + std::abs(delta) * mesh.getSizes()[index], mesh.getSizes()[index]);
  if (index < 0 || at < 0 || at >= mesh.getSizes()[index])
    return op.emitOpError("talks to a rank beyond the mesh: ") << axis << " " << at;
  int64_t stride = 1;
  for (size_t i = index + 1; i < mesh.getSizes().size(); ++i)
    stride *= mesh.getSizes()[i];
  return rank.id + (at - rank.coordinate[index]) * stride;
}

//===-- Collectives ---------------------------------------------------------===//

std::vector<int64_t> groupOf(parallel::MeshAttr mesh, const Rank &rank, plan::CollectiveOp op) {
  std::vector<int64_t> group(1, 0), sizes(mesh.getSizes().begin(), mesh.getSizes().end());
  auto idOf = [&](ArrayRef<int64_t> coordinate) {
    int64_t id = 0;
    for (size_t i = 0; i < sizes.size(); ++i)
      id = id * sizes[i] + coordinate[i];
    return id;
  };
  std::vector<SmallVector<int64_t>> cellRanges = {rank.coordinate};
  for (auto axis : op.getAxes().getAsRange<StringAttr>()) {
    int index = mesh.getIndex(axis.getValue());
    if (index < 0)
      return {};
    SmallVector<int64_t> along;
    if (op.getMembers())
      llvm::append_range(along, *op.getMembers());
    else
      llvm::append_range(along, llvm::seq<int64_t>(0, sizes[index]));
    std::vector<SmallVector<int64_t>> next;
    for (auto &place : cellRanges)
      for (int64_t c : along) {
        next.push_back(place);
        next.back()[index] = c;
      }
    cellRanges = std::move(next);
  }
  group.clear();
  for (auto &place : cellRanges)
    group.push_back(idOf(place));
  return group;
}

// Exchanges rows by the op of parallel that does: each member has rows, and the counts that it sends and gets.
static FailureOr<Tensor> exchangeRows(plan::CollectiveOp op, const std::vector<const Tensor *> &operands,
                                      size_t index) {
  auto members = static_cast<int64_t>(operands.size()) / 3;
  for (size_t i = 0; i < operands.size(); ++i)
    if (i % 3 != 0 && operands[i]->size() != members)
      return op.emitOpError("group of ") << members << " does not fit its counts of rows";
  Block block;
  SmallVector<Value> arguments = {block.addArgument(tensorOf(op.getSrc()), op.getLoc())};
  for (Value counts : op.getCounts())
    arguments.push_back(block.addArgument(tensorOf(counts), op.getLoc()));
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToEnd(&block);
  auto exchange = parallel::ExchangeRowsOp::create(builder, op.getLoc(), tensorOf(op.getDst()), arguments[0],
                                                   arguments[1], arguments[2], op.getAxes());
  return exchange.evaluateMember(operands, static_cast<int64_t>(index));
}

FailureOr<Tensor> combine(plan::CollectiveOp op, const std::vector<const Tensor *> &parts,
                          size_t index, const std::vector<int64_t> &shape) {
  if (op.getKind() == plan::CollectiveKind::exchange_rows)
    return exchangeRows(op, parts, index);
  auto members = static_cast<int64_t>(parts.size());
  for (const Tensor *part : parts)
    if (part->size() != parts.front()->size())
      return op.emitOpError("members bring ") << parts.front()->size() << " and " << part->size()
                                              << " elements";
  int64_t expected = op.getKind() == plan::CollectiveKind::all_gather ? parts[0]->size() * members
                     : op.getKind() == plan::CollectiveKind::reduce_scatter
                         ? parts[0]->size() / members
                         : parts[0]->size();
  bool uneven = op.getKind() == plan::CollectiveKind::all_to_all && parts[0]->size() % members != 0;
  if (Tensor::count(shape) != expected || uneven)
    return op.emitOpError("group of ") << members << " does not fit its buffers";
  Tensor result(shape);
  int64_t slices = op.getSlices().value_or(1);
  auto reduce = [&](int64_t from, int64_t count, int64_t to = 0) {
    for (int64_t i = 0; i < count; ++i) {
      double total = parts[0]->data[from + i];
      for (size_t k = 1; k < parts.size(); ++k)
        total = op.getReduce() == graph::ReduceKind::max ? std::max(total, parts[k]->data[from + i])
                                                         : total + parts[k]->data[from + i];
      result.data[to + i] = total;
    }
  };
  switch (op.getKind()) {
  case plan::CollectiveKind::all_reduce:
    reduce(0, result.size());
    break;
  case plan::CollectiveKind::reduce_scatter:
    for (int64_t i = 0, size = result.size() / slices; i < slices; ++i)
      reduce((i * members + static_cast<int64_t>(index)) * size, size, i * size);
    break;
  case plan::CollectiveKind::broadcast:
    result.data = parts[0]->data;
    break;
  case plan::CollectiveKind::all_to_all: {
    int64_t part = result.size() / int64_t(parts.size());
    for (size_t k = 0; k < parts.size(); ++k)
      std::copy_n(parts[k]->data.begin() + index * part, part, result.data.begin() + k * part);
    break;
  }
  case plan::CollectiveKind::exchange_rows: // has returned above
    break;
  case plan::CollectiveKind::all_gather:
    for (int64_t i = 0, size = parts[0]->size() / slices; i < slices; ++i)
      for (int64_t k = 0; k < members; ++k)
        std::copy_n(parts[k]->data.begin() + i * size, size, result.data.begin() + (i * members + k) * size);
    break;
  }
  return result;
}

std::vector<Tensor> PlanInterpreter::operandsOf(const Rank &rank, plan::CollectiveOp op) const {
  std::vector<Tensor> operands = {read(rank, op.getSrc())};
  for (Value counts : op.getCounts())
    operands.push_back(read(rank, counts));
  return operands;
}

FailureOr<bool> PlanInterpreter::collective(Rank &rank, plan::CollectiveOp op) {
  std::vector<int64_t> group = groupOf(mesh, rank, op);
  int64_t self = llvm::find(group, rank.id) - group.begin();
  if (group.empty() || self == static_cast<int64_t>(group.size()))
    return op.emitOpError("rank ") << rank.id << " is no member of the group";
  PendingCollective &meeting = meetings[{group, op->getAttrOfType<IntegerAttr>("stream").getInt()}];
  if (!rank.posted) {
    if (meeting.parts.count(rank.id) || meeting.results.count(rank.id))
      return false;
    meeting.parts[rank.id] = operandsOf(rank, op);
    rank.posted = true;
  }
  if (meeting.parts.size() == group.size()) {
    std::vector<const Tensor *> parts;
    for (int64_t member : group)
      for (const Tensor &part : meeting.parts[member])
        parts.push_back(&part);
    std::vector<int64_t> shape = tensorOf(op.getDst()).getShape().vec();
    for (size_t i = 0; i < group.size(); ++i) {
      FailureOr<Tensor> result = combine(op, parts, i, shape);
      if (failed(result))
        return failure();
      meeting.results[group[i]] = std::move(*result);
    }
    meeting.parts.clear();
  }
  auto result = meeting.results.find(rank.id);
  if (result == meeting.results.end())
    return false;
  result->second.shape = tensorOf(op.getDst()).getShape().vec();
  if (result->second.size() != Tensor::count(result->second.shape))
    return op.emitOpError("members disagree on the size");
  write(rank, op.getDst(), result->second);
  meeting.results.erase(result);
  rank.posted = false;
  return true;
}

} // namespace llmc::verify::machine
