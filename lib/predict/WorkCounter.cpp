#include "lib/predict/WorkCounter.h"

#include "dialects/graph/Equation.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"
#include "lib/predict/Values.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/5-schedule/BuildProcedures/BufferAssignment.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::cost;
using namespace llmc::predict;

// Returns the last of the sums that a result is added into, or the result: products of which each adds a part of one
// gradient end in the same.
static Value sumOf(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (!isa<graph::AddOp, graph::ReshapeOp>(user))
      break;
    value = user->getResult(0);
  }
  return value;
}

// Returns whether elementwise ops alone read a result: they are then one kernel with the op that makes it. What is
// kept for backward does not count: such kernels compute it again.
bool WorkCounter::staysInKernel(Value value) const {
  bool isRead = false;
  for (Operation *user : value.getUsers()) {
    if (isa<graph::ReshapeOp, graph::BroadcastOp>(user)) {
      if (!staysInKernel(user->getResult(0)))
        return false;
      isRead = true;
    } else if (fuses(user)) {
      isRead = true;
    } else if (!user->hasTrait<OpTrait::IsTerminator>()) {
      return false;
    }
  }
  return isRead;
}

// Returns whether a stack computes an op in one kernel with elementwise ops beside it.
bool WorkCounter::fuses(Operation *op) const { return fuses_ && isElementwise(op); }

// Returns whether an op adds to a sum of the step: that of gradients is priced by the types and kernels of a stack.
bool WorkCounter::addsToSum(Operation *op) const {
  if (!isa<graph::AddOp>(op))
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    auto arg = dyn_cast<BlockArgument>(wholeOf(operand));
    if (!arg)
      return false;
    auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
    if (auto repeat = dyn_cast<graph::RepeatOp>(arg.getOwner()->getParentOp()); repeat && !func) {
      unsigned index = arg.getArgNumber();
      arg = index < repeat->getNumOperands() ? dyn_cast<BlockArgument>(repeat->getOperand(index)) : BlockArgument();
      func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
    }
    auto symbol = func ? func.getArgAttrOfType<SymbolRefAttr>(arg.getArgNumber(), graph::kState) : SymbolRefAttr();
    auto state = symbol ? symbols_.lookup<graph::StateOp>(symbol.getRootReference()) : graph::StateOp();
    return state && state.getRole() == graph::Role::accumulator;
  });
}

template <class Op> static void countAttention(Op op, Value q, Value k, Value v, Work &work) {
  auto shape = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  Attention a;
  a.batch = double(shape(q)[0]);
  a.queries = double(shape(q)[1]), a.heads = double(shape(q)[2]), a.headDim = double(shape(q)[3]);
  a.keys = double(shape(k)[1]), a.kvHeads = double(shape(k)[2]), a.valueDim = double(shape(v)[3]);
  a.causal = op.getCausal(), a.backward = std::is_same_v<Op, graph::AttentionGradOp>;
  if (auto share = op->template getAttrOfType<FloatAttr>(parallel::kVisible))
    a.seen = share.getValueAsDouble();
  if (auto window = op.getWindow())
    a.window = double(*window);
  work.attentions.push_back(a);
}

// Returns what a collective is for, by the tactic that asked for it.
static Role roleOf(Operation *op) {
  auto origin = op->getAttrOfType<DictionaryAttr>(parallel::kOrigin);
  auto tactic = origin ? origin.getAs<StringAttr>("tactic") : StringAttr();
  StringRef name = tactic ? tactic.getValue() : "";
  if (isa<parallel::ExchangeRowsOp>(op) || name == "expert")
    return Role::Expert;
  if (name == "stages")
    return Role::Stages;
  return name == "context" ? Role::Context : name == "data" || name == "state" ? Role::Data : Role::Tensor;
}

void WorkCounter::count(Operation *op, Work &work) {
  if (isa<graph::RepeatOp, parallel::AxisOffsetOp>(op) || (!isOurs_ && isa<graph::SliceOp>(op)) || op->hasTrait<OpTrait::IsTerminator>() ||
      (!isOurs_ && isa<graph::ConstantOp, graph::BroadcastOp, graph::IotaOp>(op)))
    return;
  // Looks up the rows that are the rank's own (passes/5-schedule/LowerCollectives).
  if (isOurs_ && isa<parallel::AllSliceOp>(op))
    return countMove(op->getResult(0), work);
  if (auto collective = dyn_cast<parallel::CollectiveOpInterface>(op))
    return countCollective(collective, work);
  if (isOurs_ && countOfPlan(op, work))
    return;
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  if (!graphOp || graphOp.getEmitClass() == graph::EmitClass::Alias)
    return;
  auto seen = op->getAttrOfType<FloatAttr>(parallel::kVisible);
  work.flops += graphOp.getFlops() * (seen ? seen.getValueAsDouble() : 1);
  ++work.operations;
  if (isa<graph::MatmulOp, graph::GroupedMatmulOp, graph::GroupedOuterOp>(op))
    enter(op, work, {Entry::OfProduct, work.products.size()});
  else if (isa<graph::AttentionOp, graph::AttentionGradOp>(op))
    enter(op, work, {Entry::OfAttention, work.attentions.size()});
  if (auto matmul = dyn_cast<graph::MatmulOp>(op))
    return countMatmul(matmul, work);
  if (auto grouped = dyn_cast<graph::GroupedMatmulOp>(op))
    return countGrouped(grouped, work);
  if (auto outer = dyn_cast<graph::GroupedOuterOp>(op))
    return countOuter(outer, work);
  if (auto attention = dyn_cast<graph::AttentionOp>(op))
    return countAttention(attention, attention.getQ(), attention.getK(), attention.getV(), work);
  if (auto grad = dyn_cast<graph::AttentionGradOp>(op))
    return countAttention(grad, grad.getQ(), grad.getK(), grad.getV(), work);
  countBytes(op, work);
}

// Returns whether the result of an op is no copy of its operands: a view, or parts that are written side by side.
static bool isInPlace(Operation *op) {
  int64_t displacement;
  if (isa<graph::SliceOp>(op))
    return isView(op, displacement);
  if (isa<graph::ConcatOp>(op))
    return isConcatInPlace(op);
  return cast<graph::GraphOpInterface>(op).getEmitClass() == graph::EmitClass::Alias;
}

// Counts what is a launch of our own plans, or part of one; returns false of what is priced by its shape.
bool WorkCounter::countOfPlan(Operation *op, Work &work) {
  auto group = dyn_cast<plan::GroupOp>(op);
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  if (!group && (!graphOp || isInPlace(op)))
    return true;
  if (isa<graph::MatmulOp, graph::GroupedMatmulOp, graph::GroupedOuterOp, graph::AttentionOp, graph::AttentionGradOp>(op))
    return false;
  bool isConstant = isa<graph::ConstantOp>(op);
  if (isConstant && elementsOf(op->getResult(0).getType()) < 2)
    return true; // stands in the kernels that read it
  if (group)
    group->walk([&](graph::GraphOpInterface inner) { work.flops += inner.getFlops(); });
  else
    work.flops += graphOp.getFlops();
  // Adds in the product itself, where one makes what is added.
  if (addsToSum(op) && llvm::any_of(op->getOperands(), [](Value operand) {
        return isa_and_nonnull<graph::MatmulOp, graph::GroupedOuterOp>(wholeOf(operand).getDefiningOp());
      }))
    return true;
  ++work.operations;
  Entry entry{Entry::OfKernel};
  for (Value operand : op->getOperands())
    entry.bytes += bytesOf(operand);
  for (Value result : op->getResults())
    entry.bytes += bytesOf(result);
  work.bytes += entry.bytes;
  enter(op, work, entry);
  return true;
}

void WorkCounter::enter(Operation *op, Work &work, Entry entry) {
  if (!isOurs_)
    return;
  entries_[op] = {&work, work.order.size()};
  work.order.push_back(entry);
}

// Returns the first entry of a work that reads one of the results of an op, or views of them; the end if none does.
size_t WorkCounter::firstReader(Operation *op, const Work &work) const {
  size_t first = work.order.size();
  for (Operation *user : op->getUsers()) {
    if (auto entry = entries_.find(user); entry != entries_.end()) {
      if (entry->second.first == &work)
        first = std::min(first, entry->second.second);
    } else if (!isa<graph::RepeatOp>(user)) { // a view, or an addition that a product does
      first = std::min(first, firstReader(user, work));
    }
  }
  return first;
}

void WorkCounter::countLayer(Block &block, Work &work) {
  std::vector<TimedOp> ops;
  std::vector<size_t> begins; // of the entries of each op, which may move what a collective sends and receives
  for (Operation &op : block) {
    const size_t begin = work.order.size(), products = work.products.size();
    count(&op, work);
    if (work.order.size() == begin)
      continue;
    ops.push_back({&op, work.products.size() > products ? work.products.back().flops() / 2 : 0});
    begins.push_back(begin);
  }
  begins.push_back(work.order.size());
  work.ofTwo = orderOfTwo(block, ops, begins, work);
  if (std::vector<size_t> order = overlapExchanges(ops); !order.empty()) {
    std::vector<Entry> moved(work.order.begin(), work.order.begin() + std::ptrdiff_t(begins.front()));
    for (size_t i : order) {
      const std::ptrdiff_t by = std::ptrdiff_t(moved.size()) - std::ptrdiff_t(begins[i]);
      if (auto at = entries_.find(ops[i].op); at != entries_.end())
        at->second.second += size_t(by);
      for (size_t k = begins[i]; k < begins[i + 1]; ++k) {
        moved.push_back(work.order[k]);
        moved.back().until += moved.back().until ? size_t(by) : 0;
      }
    }
    work.order = std::move(moved);
  }
  finish(work);
}

std::vector<Entry> WorkCounter::orderOfTwo(Block &block, const std::vector<TimedOp> &ops, const std::vector<size_t> &begins,
                                           const Work &work) const {
  std::vector<Entry> entries;
  const std::vector<size_t> order = overlapLayers(ops);
  std::vector<size_t> places(order.size()); // of the first entry of each op, of both layers
  for (size_t i : order) {
    const size_t begin = begins[i % ops.size()], end = begins[i % ops.size() + 1];
    places[i] = entries.size();
    for (size_t k = begin; k < end; ++k) {
      entries.push_back(work.order[k]);
      if (entries.back().until) // within the entries of the op
        entries.back().until += places[i] - begin;
    }
  }
  llvm::DenseMap<Operation *, size_t> numbers;
  for (auto [i, timed] : llvm::enumerate(ops))
    numbers[timed.op] = i;
  // Finds the first entry that reads a value of a layer, or views of it; that of the second what the first gives it.
  auto firstReader = [&](auto &self, Value value, size_t layer) -> size_t {
    size_t first = entries.size();
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto number = numbers.find(user); number != numbers.end())
        first = std::min(first, places[layer * ops.size() + number->second]);
      else if (user != block.getTerminator())
        for (Value result : user->getResults())
          first = std::min(first, self(self, result, layer));
      else if (auto repeat = dyn_cast<graph::RepeatOp>(block.getParentOp()); repeat && !layer && use.getOperandNumber() < repeat.getCarried().size())
        first = std::min(first, self(self, block.getArgument(use.getOperandNumber()), 1));
    }
    return first;
  };
  for (size_t i : order)
    for (size_t k = 0; k < begins[i % ops.size() + 1] - begins[i % ops.size()]; ++k)
      if (Entry &entry = entries[places[i] + k]; entry.kind == Entry::OfCollective && !entry.until)
        entry.until = firstReader(firstReader, ops[i % ops.size()].op->getResult(0), i / ops.size());
  return entries;
}

void WorkCounter::finish(Work &work) {
  llvm::erase_if(collectives_, [&](Operation *op) {
    auto [ofWork, entry] = entries_.lookup(op);
    if (ofWork != &work)
      return false;
    work.order[entry].until = firstReader(op, work);
    return true;
  });
}

void WorkCounter::countBytes(Operation *op, Work &work) {
  if (addsToSum(op))
    return;
  // Reads of a table or of logits the elements alone that are looked up.
  bool looksUp = isa<graph::GatherOp, graph::TakeAlongOp>(op);
  for (Value operand : op->getOperands())
    if (!looksUp && !(fuses(op) && fuses(rootOf(operand).getDefiningOp())))
      work.bytes += bytesOf(operand);
  for (Value result : op->getResults())
    if (!(fuses(op) && staysInKernel(result)))
      work.bytes += (looksUp ? 2 : 1) * bytesOf(result);
}

// Joins a product with the one of the same key, if their other sizes agree.
void WorkCounter::add(Work &work, Product product, Value key, Joins joins) {
  if (!isOurs_ && key)
    if (auto [at, isNew] = merged_.try_emplace({&work, key}, work.products.size()); !isNew) {
      Product &known = work.products[at->second];
      bool sameRows = known.rows == product.rows && known.batch == product.batch && known.experts == product.experts &&
                      known.ofWeights == product.ofWeights;
      bool wider = sameRows && known.depth == product.depth && known.merged >= 1;
      if (wider && joins != Joins::Depth) {
        known.columns += product.columns;
        ++known.merged;
        return;
      }
      if (sameRows && known.columns == product.columns && joins == Joins::Depth) {
        known.depth += product.depth;
        ++known.merged;
        return;
      }
    }
  work.products.push_back(product);
}

// Sets what a product of our own plans writes, and whether it adds to a sum of the step.
void WorkCounter::setResult(Operation *op, Product &product) const {
  Value result = op->getResult(0);
  product.resultBytes = double(cast<RankedTensorType>(result.getType()).getElementTypeBitWidth() / 8);
  while (result.hasOneUse() && isa<graph::ReshapeOp>(*result.user_begin()))
    result = result.user_begin()->getResult(0);
  product.accumulates = result.hasOneUse() && addsToSum(*result.user_begin());
}

void WorkCounter::countMatmul(graph::MatmulOp op, Work &work) {
  auto equation = graph::Equation::parse(op.getEquation());
  if (!equation)
    return;
  llvm::DenseMap<char, double> sizes;
  auto note = [&](const std::string &letters, Value value) {
    for (auto [letter, size] : llvm::zip(letters, cast<RankedTensorType>(value.getType()).getShape()))
      sizes[letter] = double(size);
  };
  note(equation->lhs, op->getOperand(0));
  note(equation->rhs, op->getOperand(1));
  auto product = [&](const std::string &letters) {
    double size = 1;
    for (char letter : letters)
      size *= sizes[letter];
    return size;
  };
  Product out{product(equation->onlyLhs()), product(equation->onlyRhs()), product(equation->contracted()),
              product(equation->batch())};
  bool reduces = equation->contracted().size() > 1; // over rows and tokens: the gradient of weights
  bool isGradient = !reduces && equation->rhs.back() == equation->contracted().back(); // to an operand
  out.ofWeights = reduces;
  if (isOurs_) {
    // Writes rows of what the result has last, whichever operand that comes from.
    if (!equation->result.empty() && equation->onlyLhs().find(equation->result.back()) != std::string::npos)
      std::swap(out.rows, out.columns);
    setResult(op, out);
  }
  Value key = isGradient ? sumOf(op.getResult()) : rootOf(op->getOperand(0));
  add(work, out, out.batch == 1 ? key : Value(), isGradient ? Joins::Depth : Joins::Columns);
}

// Counts rows as often as an expert takes them: a dim of choices that the operand lacks stands in the routes.
void WorkCounter::countGrouped(graph::GroupedMatmulOp op, Work &work) {
  auto weights = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  double rows = elementsOf(op.getRoutes().getType()) / room_;
  double depth = double(cast<RankedTensorType>(op.getOperand().getType()).getShape().back());
  double columns = double(cast<RankedTensorType>(op.getResult().getType()).getShape().back());
  Joins joins = Joins::Columns;
  Value sum = sumOf(op.getResult()), key = rootOf(op.getOperand());
  if (sum != op.getResult() && sum.getDefiningOp<graph::AddOp>()) {
    joins = Joins::Depth;
    key = sum;
  }
  add(work, {rows, columns, depth, 1, weights[0]}, key, joins);
}

// Takes the contraction over the rows of an expert as rows of a product of the same FLOPs.
void WorkCounter::countOuter(graph::GroupedOuterOp op, Work &work) {
  auto result = cast<RankedTensorType>(op.getResult().getType()).getShape();
  double rows = elementsOf(op.getRoutes().getType()) / room_;
  Product product{rows, double(result[2]), double(result[1]), 1, result[0]};
  if (isOurs_) {
    double experts = double(result[0]);
    product = {double(result[1]) * experts, double(result[2]), rows / experts, 1, result[0]};
    setResult(op, product);
  }
  product.ofWeights = true;
  // Shares the operand that has no more columns than the other: the input of gate and up.
  add(work, product, rootOf(op.getLhs()), Joins::Columns);
}

// Returns the elements of the dimensions before one.
static double slicesBefore(Value value, int64_t dim) {
  double slices = 1;
  for (int64_t size : cast<RankedTensorType>(value.getType()).getShape().take_front(dim))
    slices *= double(size);
  return slices;
}

// Returns whether a collective is of tensors that are transposed so that the parts of a member lie together, and back:
// before it, and after it (passes/5-schedule/LowerCollectives).
static std::pair<bool, bool> transposes(Operation *op) {
  if (auto exchange = dyn_cast<parallel::AllToAllOp>(op)) {
    bool moves = exchange.getSplit() != 0 || exchange.getConcat() != 0;
    return {moves && slicesBefore(exchange.getOperand(), exchange.getSplit()) > 1,
            moves && slicesBefore(exchange.getResult(), exchange.getConcat()) > 1};
  }
  auto dim = op->getAttrOfType<IntegerAttr>("dim");
  bool both = dim && isa<parallel::AllGatherOp, parallel::ReduceScatterOp>(op) && slicesBefore(op->getOperand(0), dim.getInt()) > 32;
  return {both, both};
}

void WorkCounter::countMove(Value moved, Work &work) {
  work.bytes += 2 * bytesOf(moved);
  ++work.operations;
  work.order.push_back({Entry::OfKernel, 0, 2 * bytesOf(moved)});
}

void WorkCounter::countCollective(parallel::CollectiveOpInterface op, Work &work) {
  if (!op.communicates())
    return;
  Value operand = op->getOperand(0), result = op->getResult(0);
  Collective out;
  out.kind = TypeSwitch<Operation *, Transfer>(op)
                 .Case<parallel::AllReduceOp>([](auto) { return Transfer::AllReduce; })
                 .Case<parallel::AllGatherOp>([](auto) { return Transfer::AllGather; })
                 .Case<parallel::ReduceScatterOp>([](auto) { return Transfer::ReduceScatter; })
                 .Case<parallel::ShiftOp>([](auto) { return Transfer::Shift; })
                 .Default([](Operation *) { return Transfer::AllToAll; });
  out.bytes = std::max(bytesOf(operand), out.kind == Transfer::AllGather ? bytesOf(result) : 0.0);
  if (isOurs_ && isa<parallel::ExchangeRowsOp>(op)) // moves the rows that there are, whichever side has room for more
    out.bytes = std::min(bytesOf(operand), bytesOf(result));
  out.role = roleOf(op);
  out.group = groupOf(op.getAxes());
  auto [before, after] = isOurs_ ? transposes(op) : std::pair(false, false);
  if (before)
    countMove(operand, work);
  if (isOurs_ && !after)
    collectives_.push_back(op);
  enter(op, work, {Entry::OfCollective, work.collectives.size()});
  if (after) { // reads what has come at once
    work.order.back().until = work.order.size();
    countMove(result, work);
  }
  work.collectives.push_back(out);
  ++work.operations;
}

// Returns the ranks of a group: axes are in the mesh's order, the last one fastest.
Group WorkCounter::groupOf(ArrayAttr axes) {
  Group group;
  int64_t stride = 1;
  bool found = false;
  auto names = mesh_.getNames();
  auto sizes = mesh_.getSizes();
  for (size_t i = names.size(); i-- > 0;) {
    if (llvm::is_contained(axes.getValue(), Attribute(names[i]))) {
      group.size *= sizes[i];
      if (!found)
        group.stride = stride;
      found = true;
    }
    stride *= sizes[i];
  }
  return group;
}
