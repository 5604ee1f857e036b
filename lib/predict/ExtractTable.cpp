#include "lib/predict/ExtractTable.h"

#include "dialects/graph/Equation.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::cost;

namespace {

double elementsOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? double(tensor.getNumElements()) : 0;
}

double bytesOf(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? double(tensor.getNumElements()) * std::max(1u, tensor.getElementTypeBitWidth() / 8) : 0;
}

// Follows a value to what holds its elements: through views, and from a gathered tensor to the part that is kept.
Value rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, parallel::AllGatherOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

// Returns the last of the sums that a result is added into, or the result: products of which each adds a part of one
// gradient end in the same.
Value sumOf(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (!isa<graph::AddOp, graph::ReshapeOp>(user))
      break;
    value = user->getResult(0);
  }
  return value;
}

// Counts one block: the ops of one layer, or those outside of layers.
class Counter {
public:
  Counter(parallel::MeshAttr mesh, Profile software)
      : mesh_(mesh), merges_(software != Profile::Llmc), fuses_(software == Profile::Fused) {}

  void count(Operation *op, Work &work) {
    if (isa<graph::ConstantOp, graph::RepeatOp, graph::BroadcastOp, graph::SliceOp, graph::IotaOp,
            parallel::AxisOffsetOp>(op) || op->hasTrait<OpTrait::IsTerminator>())
      return;
    if (auto collective = dyn_cast<parallel::CollectiveOpInterface>(op))
      return countCollective(collective, work);
    auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
    if (!graphOp || graphOp.getEmitClass() == graph::EmitClass::Alias)
      return;
    work.flops += graphOp.getFlops();
    ++work.operations;
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
    if (addsToSum(op))
      return;
    // Reads of a table or of logits the elements alone that are looked up.
    bool looksUp = isa<graph::GatherOp, graph::TakeAlongOp>(op);
    for (Value operand : op->getOperands())
      if (!looksUp && !(fuses_ && isElementwise(op) && isElementwise(rootOf(operand).getDefiningOp())))
        work.bytes += bytesOf(operand);
    for (Value result : op->getResults())
      if (!(fuses_ && isElementwise(op) && staysInKernel(result)))
        work.bytes += (looksUp ? 2 : 1) * bytesOf(result);
  }

private:
  static bool isElementwise(Operation *op) {
    auto graphOp = dyn_cast_or_null<graph::GraphOpInterface>(op);
    return graphOp && graphOp.getEmitClass() == graph::EmitClass::Elementwise;
  }
  // Returns whether elementwise ops alone read a result: they are then one kernel with the op that makes it. What is
  // kept for backward does not count: such kernels compute it again.
  static bool staysInKernel(Value value) {
    bool isRead = false;
    for (Operation *user : value.getUsers()) {
      if (isa<graph::ReshapeOp, graph::BroadcastOp>(user)) {
        if (!staysInKernel(user->getResult(0)))
          return false;
        isRead = true;
      } else if (isElementwise(user)) {
        isRead = true;
      } else if (!user->hasTrait<OpTrait::IsTerminator>()) {
        return false;
      }
    }
    return isRead;
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

  void add(Work &work, Product product, Value key) {
    if (merges_ && key)
      if (auto [at, isNew] = merged_.try_emplace({&work, key}, work.products.size()); !isNew) {
        Product &known = work.products[at->second];
        bool sameRows = known.rows == product.rows && known.batch == product.batch &&
                        known.experts == product.experts && known.ofWeights == product.ofWeights;
        bool wider = sameRows && known.depth == product.depth && known.merged >= 1;
        if (wider && joins_ != Joins::Depth) {
          known.columns += product.columns;
          ++known.merged;
          return;
        }
        if (sameRows && known.columns == product.columns && joins_ == Joins::Depth) {
          known.depth += product.depth;
          ++known.merged;
          return;
        }
      }
    work.products.push_back(product);
  }

  void countMatmul(graph::MatmulOp op, Work &work) {
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
    joins_ = isGradient ? Joins::Depth : Joins::Columns;
    Value key = isGradient ? sumOf(op.getResult()) : rootOf(op->getOperand(0));
    add(work, out, out.batch == 1 ? key : Value());
  }

  // Counts rows as often as an expert takes them: a dim of choices that the operand lacks stands in the routes.
  void countGrouped(graph::GroupedMatmulOp op, Work &work) {
    auto weights = cast<RankedTensorType>(op.getWeights().getType()).getShape();
    double rows = elementsOf(op.getRoutes().getType());
    double depth = double(cast<RankedTensorType>(op.getOperand().getType()).getShape().back());
    double columns = double(cast<RankedTensorType>(op.getResult().getType()).getShape().back());
    joins_ = Joins::Columns;
    Value sum = sumOf(op.getResult()), key = rootOf(op.getOperand());
    if (sum != op.getResult() && sum.getDefiningOp<graph::AddOp>()) {
      joins_ = Joins::Depth;
      key = sum;
    }
    add(work, {rows, columns, depth, 1, weights[0]}, key);
  }

  // Takes the contraction over the rows of an expert as rows of a product of the same FLOPs.
  void countOuter(graph::GroupedOuterOp op, Work &work) {
    auto result = cast<RankedTensorType>(op.getResult().getType()).getShape();
    double rows = elementsOf(op.getRoutes().getType());
    Product product{rows, double(result[2]), double(result[1]), 1, result[0]};
    product.ofWeights = true;
    joins_ = Joins::Columns;
    // Shares the operand that has no more columns than the other: the input of gate and up.
    add(work, product, rootOf(op.getLhs()));
  }

  template <class Op> void countAttention(Op op, Value q, Value k, Value v, Work &work) {
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

  void countCollective(parallel::CollectiveOpInterface op, Work &work) {
    if (!op.communicates())
      return;
    Value operand = op->getOperand(0), result = op->getResult(0);
    if (!isa<FloatType>(cast<RankedTensorType>(operand.getType()).getElementType()))
      return;
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
    work.collectives.push_back(out);
    ++work.operations;
  }

  Role roleOf(Operation *op) {
    auto origin = op->getAttrOfType<DictionaryAttr>(parallel::kOrigin);
    auto tactic = origin ? origin.getAs<StringAttr>("tactic") : StringAttr();
    StringRef name = tactic ? tactic.getValue() : "";
    if (isa<parallel::ExchangeRowsOp>(op) || name == "expert")
      return Role::Expert;
    return name == "context" ? Role::Context : name == "data" || name == "state" ? Role::Data : Role::Tensor;
  }

  // Returns the ranks of a group: axes are in the mesh's order, the last one fastest.
  Group groupOf(ArrayAttr axes) {
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

  enum class Joins { Columns, Depth };
  parallel::MeshAttr mesh_;
  bool merges_, fuses_;
  Joins joins_ = Joins::Columns;
  llvm::DenseMap<std::pair<Work *, Value>, size_t> merged_;
};

// Counts what backward reads of the forward pass of one block, as stacks keep it: operands of products, of norms and
// of attention, and of elementwise ops that are not linear.
class KeptCounter {
public:
  // Takes the number of attentions around one ring: the first has the rank's own keys, and what the others see is sent.
  explicit KeptCounter(int64_t rings = 1) : rings_(rings) {}

  void count(Operation *op) {
    if (isa<graph::MatmulOp, graph::GroupedMatmulOp>(op)) {
      keep(op->getOperand(0));
      if (Value other = rootOf(op->getOperand(1)); other.getDefiningOp())
        keep(other);
      return;
    }
    if (isa<graph::AttentionOp>(op)) {
      if (attentions_++ % rings_ != 0)
        return;
      for (unsigned i = 0; i < 3; ++i)
        keep(op->getOperand(i));
      for (Value result : op->getResults())
        keep(result);
      return;
    }
    if (isa<graph::LayerNormOp, graph::RmsNormOp>(op)) {
      keep(op->getOperand(0));
      for (Value statistic : op->getResults().drop_front())
        keep(statistic);
      return;
    }
    if (isa<graph::SoftmaxOp>(op))
      return keep(op->getResult(0));
    if (isNonlinear(op))
      for (Value operand : op->getOperands())
        keepElementwise(operand);
  }

  double inputs = 0, unfused = 0;

private:
  static bool isElementwise(Operation *op) {
    auto graphOp = dyn_cast_or_null<graph::GraphOpInterface>(op);
    return graphOp && graphOp.getEmitClass() == graph::EmitClass::Elementwise;
  }
  static bool isNonlinear(Operation *op) {
    if (!isElementwise(op) || isa<graph::AddOp, graph::SubOp, graph::NegOp, graph::CastOp>(op))
      return false;
    auto result = cast<RankedTensorType>(op->getResult(0).getType());
    return isa<FloatType>(result.getElementType());
  }
  void keep(Value value) {
    value = rootOf(value);
    if (seen_.insert(value).second)
      inputs += bytesOf(value);
  }
  void keepElementwise(Value value) {
    value = rootOf(value);
    Operation *op = value.getDefiningOp();
    if (!op && !isa<BlockArgument>(value))
      return;
    if (isa_and_nonnull<graph::ConstantOp, graph::BroadcastOp>(op) || (!op && elementsOf(value.getType()) < 2))
      return;
    if (!isElementwise(op))
      return keep(value);
    if (!seen_.contains(value) && unfusedSeen_.insert(value).second)
      unfused += bytesOf(value);
  }
  llvm::DenseSet<Value> seen_, unfusedSeen_;
  int64_t rings_, attentions_ = 0;
};

// Counts the parameters that the block arguments of a function stand for.
class ParameterCounter {
public:
  ParameterCounter(func::FuncOp forward, ModuleOp module, int64_t rings)
      : forward_(forward), symbols_(module), rings_(rings) {}

  // Adds those of each repeat to its part, the others to what stands before or after.
  void count(ArrayRef<graph::RepeatOp> repeats, ArrayRef<Part *> parts, Table &table) {
    Part &before = table.before, &after = table.after;
    for (BlockArgument arg : forward_.getArguments()) {
      auto symbol = forward_.getArgAttrOfType<SymbolRefAttr>(arg.getArgNumber(), graph::kState);
      auto state = symbol ? symbols_.lookup<graph::StateOp>(symbol.getRootReference()) : graph::StateOp();
      if (!state || arg.use_empty() || isAccumulator(state))
        continue;
      double local = elementsOf(arg.getType()), whole = elementsOf(stateType(state));
      Part *part = nullptr;
      bool isExpert = false;
      for (OpOperand &use : arg.getUses()) {
        auto at = llvm::find(repeats, use.getOwner());
        if (at == repeats.end())
          continue;
        part = parts[at - repeats.begin()];
        double layers = double(graph::RepeatOp(*at).getCount() * graph::layersInBody(*at) / rings_);
        local /= layers, whole /= layers;
        isExpert = feedsExperts(graph::RepeatOp(*at).getBlock().getArgument(use.getOperandNumber()));
        break;
      }
      if (!part)
        part = isBeforeLayers(arg, repeats) ? &before : &after;
      if (part == &before && !repeats.empty() &&
          llvm::any_of(arg.getUsers(), [&](Operation *user) { return repeats.back()->isBeforeInBlock(user); }))
        table.tied += local;
      (isExpert ? part->parameters.expert : part->parameters.dense) += local;
      part->wholeParameters += whole;
    }
  }

private:
  static bool isAccumulator(graph::StateOp state) { return state.getRole() != graph::Role::parameter; }
  static Type stateType(graph::StateOp state) { return state.getType(); }
  static bool feedsExperts(Value value) {
    for (Operation *user : value.getUsers()) {
      if (auto product = dyn_cast<graph::GroupedMatmulOp>(user); product && product.getWeights() == value)
        return true;
      if (isa<graph::ReshapeOp, graph::CastOp, graph::TransposeOp>(user) && feedsExperts(user->getResult(0)))
        return true;
    }
    return false;
  }
  static bool isBeforeLayers(BlockArgument arg, ArrayRef<graph::RepeatOp> repeats) {
    if (repeats.empty())
      return true;
    graph::RepeatOp first = repeats.front();
    return llvm::any_of(arg.getUsers(), [&](Operation *user) { return user->isBeforeInBlock(first); });
  }

  func::FuncOp forward_;
  SymbolTable symbols_;
  int64_t rings_;
};

Part scaled(const Part &part, double factor) {
  Part out = part;
  for (Work *work : {&out.forward, &out.backward}) {
    for (Product &product : work->products)
      product.batch *= factor;
    for (Attention &attention : work->attentions)
      attention.batch *= factor;
    for (Collective &collective : work->collectives)
      collective.bytes *= factor;
    work->flops *= factor, work->bytes *= factor, work->operations *= factor;
  }
  out.inputs *= factor, out.unfused *= factor;
  return out;
}

} // namespace

Table predict::extractTable(ModuleOp module, cost::Profile software, int64_t rings) {
  Table table;
  auto forward = module.lookupSymbol<func::FuncOp>("forward_0");
  auto backward = module.lookupSymbol<func::FuncOp>("backward_0");
  if (!forward || !backward)
    return table;
  Counter counter(parallel::getMesh(module), software);
  auto repeatsOf = [](func::FuncOp func) {
    llvm::SmallVector<graph::RepeatOp> repeats;
    for (auto repeat : func.getOps<graph::RepeatOp>())
      repeats.push_back(repeat);
    return repeats;
  };
  llvm::SmallVector<graph::RepeatOp> repeats = repeatsOf(forward), reversed = repeatsOf(backward);
  std::vector<Part> kinds(repeats.size());
  KeptCounter before, after;
  size_t passed = 0;
  for (Operation &op : forward.getBody().front()) {
    if (auto repeat = dyn_cast<graph::RepeatOp>(op)) {
      Part &part = kinds[passed++];
      KeptCounter kept(rings);
      for (Operation &inner : repeat.getBlock()) {
        counter.count(&inner, part.forward);
        kept.count(&inner);
      }
      part.inputs = kept.inputs, part.unfused = kept.unfused;
      for (BlockArgument arg : repeat.getCarriedArgs())
        part.carried += bytesOf(arg);
      continue;
    }
    counter.count(&op, passed ? table.after.forward : table.before.forward);
    (passed ? after : before).count(&op);
    if (auto matmul = dyn_cast<graph::MatmulOp>(op); matmul && passed)
      table.after.logits = std::max(table.after.logits, elementsOf(matmul.getResult().getType()));
  }
  table.before.inputs = before.inputs, table.before.unfused = before.unfused;
  table.after.inputs = after.inputs, table.after.unfused = after.unfused;
  size_t left = reversed.size();
  for (Operation &op : backward.getBody().front()) {
    if (auto repeat = dyn_cast<graph::RepeatOp>(op)) {
      --left;
      if (left < kinds.size())
        for (Operation &inner : repeat.getBlock())
          counter.count(&inner, kinds[left].backward);
      continue;
    }
    counter.count(&op, left == reversed.size() ? table.after.backward : table.before.backward);
  }
  llvm::SmallVector<Part *> parts;
  for (Part &kind : kinds)
    parts.push_back(&kind);
  ParameterCounter(forward, module, rings).count(repeats, parts, table);

  // Counts layers: those of the module, or those of the config of which it has one of each kind.
  std::vector<int> built; // part of each layer that the module has
  for (auto [i, repeat] : llvm::enumerate(repeats)) {
    int64_t inBody = graph::layersInBody(repeat) / rings;
    if (inBody > 1) {
      Part one = scaled(kinds[i], 1 / double(inBody));
      one.parameters = kinds[i].parameters, one.wholeParameters = kinds[i].wholeParameters;
      kinds[i] = one;
    }
    built.insert(built.end(), repeat.getCount() * inBody, int(i));
  }
  table.kinds = std::move(kinds);
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  if (auto of = model ? model.getAs<ArrayAttr>("layer_kinds") : ArrayAttr()) {
    for (Attribute kind : of)
      if (size_t index = size_t(cast<IntegerAttr>(kind).getInt()); index < built.size())
        table.layers.push_back(built[index]);
  } else {
    table.layers = std::move(built);
  }
  for (graph::RepeatOp repeat : repeats)
    for (BlockArgument arg : repeat.getCarriedArgs())
      if (auto type = cast<RankedTensorType>(arg.getType()); type.getRank() == 3)
        table.width = double(type.getShape().back());
  forward.walk([&](graph::RouteOp op) {
    if (op.getMixture())
      table.copies = double(cast<RankedTensorType>(op.getRoutes().getType()).getShape().back());
  });
  return table;
}
