// Tracks the contents of padding from op to op, as a lattice of four values, and inserts the masks
// that reductions need where the contents are not neutral. Every mask changes what later ops read,
// so one walk in the order of the block analyzes and rewrites; a DataFlowSolver analyzes IR that
// does not change, and would have to start again behind each mask.
#include "passes/4-partition/PadDims/Neutral.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::FactorKind;

namespace {
enum class PaddingContent { Unknown, Finite, Zero, NegInf };

class Masker {
public:
  explicit Masker(Paddings &paddings) : paddings(paddings) {}
  LogicalResult run(Block &block);
  void leave(func::FuncOp func);
  unsigned numMasks = 0;

private:
  // Returns the contents of the padding of `value` along `dim`; a value without that padding holds
  // finite numbers.
  PaddingContent get(Value value, int64_t dim) const {
    auto found = contents.find({value, dim});
    return found == contents.end() ? PaddingContent::Finite : found->second;
  }
  LogicalResult visit(graph::GraphOpInterface op);
  LogicalResult makeNeutral(Operation *op, const graph::ShardingRule &rule, unsigned factor);
  void mask(Operation *user, unsigned operand, int64_t dim, PaddingContent wanted);
  PaddingContent transfer(Operation *op, ArrayRef<PaddingContent> in, int64_t resultDim);

  Paddings &paddings;
  DenseMap<std::pair<Value, int64_t>, PaddingContent> contents;
};
} // namespace

static bool isFiniteOrZero(PaddingContent c) {
  return c == PaddingContent::Finite || c == PaddingContent::Zero;
}

static PaddingContent addContents(PaddingContent a, PaddingContent b) {
  if (a == b)
    return a;
  if (isFiniteOrZero(a) && isFiniteOrZero(b))
    return PaddingContent::Finite;
  if ((a == PaddingContent::NegInf && isFiniteOrZero(b)) ||
      (b == PaddingContent::NegInf && isFiniteOrZero(a)))
    return PaddingContent::NegInf;
  return PaddingContent::Unknown;
}

static PaddingContent subContents(PaddingContent a, PaddingContent b) {
  if (!isFiniteOrZero(b))
    return PaddingContent::Unknown;
  if (a == PaddingContent::NegInf)
    return a;
  return isFiniteOrZero(a) ? (a == b ? a : PaddingContent::Finite) : PaddingContent::Unknown;
}

static PaddingContent mulContents(PaddingContent a, PaddingContent b) {
  if (!isFiniteOrZero(a) || !isFiniteOrZero(b))
    return PaddingContent::Unknown;
  return a == PaddingContent::Zero || b == PaddingContent::Zero ? PaddingContent::Zero
                                                                : PaddingContent::Finite;
}

static PaddingContent ofNumber(double value) {
  if (value == 0)
    return PaddingContent::Zero;
  if (std::isinf(value) && value < 0)
    return PaddingContent::NegInf;
  return std::isfinite(value) ? PaddingContent::Finite : PaddingContent::Unknown;
}

static PaddingContent ofConstant(graph::ConstantOp op) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense || !dense.isSplat() || !isa<FloatType>(dense.getElementType()))
    return PaddingContent::Unknown;
  return ofNumber(dense.getSplatValue<APFloat>().convertToDouble());
}

// Returns the contents of a result's padding, from that of the operands along the same factor
// (`Finite` for an operand that does not carry the factor).
PaddingContent Masker::transfer(Operation *op, ArrayRef<PaddingContent> in, int64_t resultDim) {
  return llvm::TypeSwitch<Operation *, PaddingContent>(op)
      .Case([&](graph::ConstantOp c) { return ofConstant(c); })
      .Case([&](graph::MaskTailOp m) {
        return static_cast<int64_t>(m.getDim()) == resultDim ? ofNumber(m.getValue().convertToDouble())
                                                             : in[0];
      })
      .Case<graph::OneHotOp, graph::ScatterAddOp>([&](auto) { return PaddingContent::Zero; })
      .Case([&](graph::AddOp) { return addContents(in[0], in[1]); })
      .Case([&](graph::SubOp) { return subContents(in[0], in[1]); })
      .Case<graph::MulOp, graph::MatmulOp>([&](auto) { return mulContents(in[0], in[1]); })
      .Case([&](graph::DivOp div) {
        return paddings.contains(div.getRhs()) || !isFiniteOrZero(in[0]) ? PaddingContent::Unknown
                                                                         : in[0];
      })
      .Case([&](graph::ExpOp) {
        return in[0] == PaddingContent::NegInf ? PaddingContent::Zero : PaddingContent::Unknown;
      })
      .Case([&](graph::NegOp) { return isFiniteOrZero(in[0]) ? in[0] : PaddingContent::Unknown; })
      // A reduction over another dimension makes zeros of zeros, and finite numbers of finite ones.
      .Case(
          [&](graph::ReduceOp) { return isFiniteOrZero(in[0]) ? in[0] : PaddingContent::Unknown; })
      .Case([&](graph::SelectOp) { return in[1] == in[2] ? in[1] : PaddingContent::Unknown; })
      .Case<graph::CastOp, graph::ReshapeOp, graph::TransposeOp, graph::BroadcastOp,
            graph::SliceOp>([&](auto) { return in[0]; })
      .Case([&](graph::AdamWOp) {
        return llvm::all_of(in, isFiniteOrZero) ? PaddingContent::Finite : PaddingContent::Unknown;
      })
      .Default([](Operation *) { return PaddingContent::Unknown; });
}

// Inserts a mask before `user`, which `user` and all users after it read.
void Masker::mask(Operation *user, unsigned operand, int64_t dim, PaddingContent wanted) {
  Value value = user->getOperand(operand);
  int64_t valid = 0;
  for (Padding padding : paddings[value])
    if (padding.dim == dim)
      valid = padding.valid;
  OpBuilder builder(user);
  double number = wanted == PaddingContent::Zero ? 0.0 : -std::numeric_limits<double>::infinity();
  auto masked = graph::MaskTailOp::create(builder, user->getLoc(), value.getType(), value, Value(),
                                          builder.getI64IntegerAttr(dim),
                                          builder.getI64IntegerAttr(valid),
                                          builder.getF64FloatAttr(number));
  // A return has no stage and direction, so the mask takes those of the value's definition.
  Operation *place = value.getDefiningOp() && isa<func::ReturnOp>(user) ? value.getDefiningOp() : user;
  for (StringRef name : {StringRef(kStage), StringRef(kBackward), StringRef(kOrigin)})
    if (Attribute attr = place->getAttr(name))
      masked->setAttr(name, attr);
  ShardingAttr sharding =
      isa<func::ReturnOp>(user) ? getRequired(user->getOpOperand(operand)) : getSharding(value).getReduced();
  setRequired(masked->getOpOperand(0), sharding);
  setSharding(masked.getResult(), sharding);
  value.replaceUsesWithIf(masked.getResult(), [&](OpOperand &use) {
    return use.getOwner() != masked && !use.getOwner()->isBeforeInBlock(user);
  });
  paddings[masked.getResult()] = SmallVector<Padding, 1>(paddings[value]);
  for (Padding padding : paddings[value])
    contents[{masked.getResult(), padding.dim}] =
        padding.dim == dim ? wanted : get(value, padding.dim);
  ++numMasks;
}

LogicalResult Masker::makeNeutral(Operation *op, const graph::ShardingRule &rule, unsigned factor) {
  SmallVector<std::pair<unsigned, int64_t>> carriers; // operand, dim
  for (auto [i, dims] : llvm::enumerate(rule.operands))
    for (auto [d, factors] : llvm::enumerate(dims))
      if (llvm::is_contained(factors, factor))
        carriers.push_back({i, d});
  auto content = [&](size_t k) {
    return get(op->getOperand(carriers[k].first), carriers[k].second);
  };
  if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
    PaddingContent wanted =
        reduce.getKind() == graph::ReduceKind::max ? PaddingContent::NegInf : PaddingContent::Zero;
    if (content(0) != wanted)
      mask(op, carriers[0].first, carriers[0].second, wanted);
    return success();
  }
  if (!isa<graph::MatmulOp>(op))
    return op->emitOpError("D2: reduces over a padded dimension and has no neutral element for it");
  // The products are neutral if one factor is zero and the other finite.
  bool anyZero = llvm::any_of(llvm::seq(carriers.size()),
                              [&](size_t k) { return content(k) == PaddingContent::Zero; });
  for (size_t k = 0; k < carriers.size(); ++k) {
    if (isFiniteOrZero(content(k)) && anyZero)
      continue;
    mask(op, carriers[k].first, carriers[k].second, PaddingContent::Zero);
    anyZero = true;
  }
  return success();
}

LogicalResult Masker::visit(graph::GraphOpInterface op) {
  bool any = llvm::any_of(op->getOperands(), [&](Value v) { return paddings.contains(v); }) ||
             llvm::any_of(op->getResults(), [&](Value v) { return paddings.contains(v); });
  if (!any)
    return success();
  graph::ShardingRule rule = op.getShardingRule();
  std::set<unsigned> padded;
  for (auto [i, dims] : llvm::enumerate(rule.operands))
    for (Padding padding : paddings.lookup(op->getOperand(i)))
      padded.insert(dims[padding.dim].begin(), dims[padding.dim].end());
  for (unsigned factor : padded) {
    FactorKind kind = rule.factors[factor].kind;
    bool reduced = kind == FactorKind::ReducedSum || kind == FactorKind::ReducedMax;
    // No index points at padding, so lookups need no mask.
    if (reduced && static_cast<int>(factor) != rule.offsetFactor &&
        failed(makeNeutral(op, rule, factor)))
      return failure();
  }
  for (OpResult result : op->getResults())
    for (Padding padding : paddings.lookup(result)) {
      unsigned factor = rule.results[result.getResultNumber()][padding.dim].front();
      SmallVector<PaddingContent> in;
      for (auto [i, dims] : llvm::enumerate(rule.operands)) {
        PaddingContent content = PaddingContent::Finite;
        for (auto [d, factors] : llvm::enumerate(dims))
          if (llvm::is_contained(factors, factor))
            content = get(op->getOperand(i), d);
        in.push_back(content);
      }
      contents[{result, padding.dim}] = transfer(op, in, padding.dim);
    }
  return success();
}

// Returns whether the state is an accumulator. Its padding is zero at every entry of a function:
// accumulators begin as zeros, and leave() masks what a function returns in them.
static bool isAccumulator(Attribute name, func::FuncOp func) {
  auto symbol = dyn_cast_or_null<FlatSymbolRefAttr>(name);
  auto state = symbol ? func->getParentOfType<ModuleOp>().lookupSymbol<graph::StateOp>(
                            symbol.getAttr())
                      : graph::StateOp();
  return state && state.getRole() == graph::Role::accumulator;
}

void Masker::leave(func::FuncOp func) {
  Operation *ret = func.getBody().front().getTerminator();
  for (OpOperand &use : ret->getOpOperands())
    if (isAccumulator(func.getResultAttr(use.getOperandNumber(), kState), func))
      for (Padding padding : paddings.lookup(use.get()))
        if (get(use.get(), padding.dim) != PaddingContent::Zero)
          mask(ret, use.getOperandNumber(), padding.dim, PaddingContent::Zero);
}

LogicalResult Masker::run(Block &block) {
  auto func = dyn_cast<func::FuncOp>(block.getParentOp());
  for (BlockArgument arg : block.getArguments())
    for (Padding padding : paddings.lookup(arg)) {
      bool isZero = func && isAccumulator(func.getArgAttr(arg.getArgNumber(), kState), func);
      // The padding of other states is finite; that of a repeat's body arguments is unknown.
      contents[{arg, padding.dim}] = isZero ? PaddingContent::Zero : func ? PaddingContent::Finite : PaddingContent::Unknown;
    }
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto repeat = dyn_cast<graph::RepeatOp>(op)) {
      if (failed(run(repeat.getBlock())))
        return failure();
      for (Value result : op.getResults())
        for (Padding padding : paddings.lookup(result))
          contents[{result, padding.dim}] = PaddingContent::Unknown;
    } else if (auto graphOp = dyn_cast<graph::GraphOpInterface>(op)) {
      if (failed(visit(graphOp)))
        return failure();
    }
  }
  return success();
}

FailureOr<unsigned> llmc::maskReductions(func::FuncOp func, Paddings &paddings) {
  Masker masker(paddings);
  if (failed(masker.run(func.getBody().front())))
    return failure();
  masker.leave(func);
  return masker.numMasks;
}
