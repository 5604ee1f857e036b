#include "lib/predict/WorkCounter.h"

#include "dialects/graph/Equation.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "lib/predict/Values.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
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

// Returns whether a stack computes an op in one kernel with elementwise ops beside it: ours does so with a reduction of
// rows, too (passes/5-schedule/FuseKernels).
bool WorkCounter::fuses(Operation *op) const {
  if (!fuses_)
    return false;
  auto graphOp = dyn_cast_or_null<graph::GraphOpInterface>(op);
  return isElementwise(op) || (isOurs_ && graphOp && graphOp.getEmitClass() == graph::EmitClass::RowReduction);
}

// Returns whether a layer of the forward pass does nothing with a value but add it to what the next layer gets.
bool WorkCounter::endsLayer(Value value) const {
  if (!isOurs_ || value.use_empty())
    return false;
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (user->hasTrait<OpTrait::IsTerminator>())
      return isa<graph::RepeatOp>(user->getParentOp());
    if (!isa<graph::AddOp, graph::ReshapeOp, graph::CastOp, parallel::CollectiveOpInterface>(user))
      return false;
    return endsLayer(user->getResult(0));
  });
}

// Returns whether an op adds to a sum of the step: that of gradients is priced by the types and kernels of a stack.
static bool addsToSum(Operation *op) {
  if (!isa<graph::AddOp>(op))
    return false;
  return llvm::any_of(op->getOperands(), [](Value operand) {
    auto arg = dyn_cast<BlockArgument>(operand);
    if (!arg)
      return false;
    auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
    if (auto repeat = dyn_cast<graph::RepeatOp>(arg.getOwner()->getParentOp()); repeat && !func) {
      unsigned index = arg.getArgNumber();
      arg = index < repeat->getNumOperands() ? dyn_cast<BlockArgument>(repeat->getOperand(index)) : BlockArgument();
      func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
    }
    auto symbol = func ? func.getArgAttrOfType<SymbolRefAttr>(arg.getArgNumber(), graph::kState) : SymbolRefAttr();
    auto state = symbol ? SymbolTable::lookupNearestSymbolFrom<graph::StateOp>(func, symbol) : graph::StateOp();
    return state && state.getRole() == graph::Role::accumulator;
  });
}

template <class Op> static void countAttention(Op op, Value q, Value k, Value v, Work &work) {
  auto shape = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  Attention a;
  a.batch = double(shape(q)[0]);
  a.queries = double(shape(q)[1]), a.heads = double(shape(q)[2]), a.headDim = double(shape(q)[3]);
  a.keys = double(shape(k)[1]), a.kvHeads = double(shape(k)[2]), a.valueDim = double(shape(v)[3]);
  a.causal = op.getCausal();
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
  return name == "context" ? Role::Context : name == "data" || name == "state" ? Role::Data : Role::Tensor;
}

void WorkCounter::count(Operation *op, Work &work) {
  if (isa<graph::ConstantOp, graph::RepeatOp, graph::BroadcastOp, graph::SliceOp, graph::IotaOp,
          parallel::AxisOffsetOp>(op) ||
      op->hasTrait<OpTrait::IsTerminator>())
    return;
  if (auto collective = dyn_cast<parallel::CollectiveOpInterface>(op))
    return countCollective(collective, work);
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  if (!graphOp || graphOp.getEmitClass() == graph::EmitClass::Alias)
    return;
  work.flops += graphOp.getFlops();
  // Launches no kernel of its own for what is computed in that of its readers.
  bool isInside = isOurs_ && fuses(op) && llvm::all_of(op->getResults(), [&](Value value) { return staysInKernel(value); });
  work.operations += isInside ? 0 : 1;
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
  if (merges_ && key)
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
  out.endsLayer = !reduces && endsLayer(op.getResult());
  Value key = isGradient ? sumOf(op.getResult()) : rootOf(op->getOperand(0));
  add(work, out, out.batch == 1 ? key : Value(), isGradient ? Joins::Depth : Joins::Columns);
}

// Counts rows as often as an expert takes them: a dim of choices that the operand lacks stands in the routes.
void WorkCounter::countGrouped(graph::GroupedMatmulOp op, Work &work) {
  auto weights = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  double rows = elementsOf(op.getRoutes().getType());
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
  double rows = elementsOf(op.getRoutes().getType());
  Product product{rows, double(result[2]), double(result[1]), 1, result[0]};
  product.ofWeights = true;
  // Shares the operand that has no more columns than the other: the input of gate and up.
  add(work, product, rootOf(op.getLhs()), Joins::Columns);
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
  out.role = roleOf(op);
  out.group = groupOf(op.getAxes());
  out.endsLayer = endsLayer(result);
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
