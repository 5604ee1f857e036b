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
enum class Content { Unknown, Finite, Zero, NegInf };

class Masker {
public:
  explicit Masker(Paddings &paddings) : paddings(paddings) {}
  LogicalResult run(Block &block);
  void leave(func::FuncOp func);
  unsigned numMasks = 0;

private:
  // Returns the contents of the padding of `value` along `dim`; a value without that padding holds
  // finite numbers.
  Content get(Value value, int64_t dim) const {
    auto found = contents.find({value, dim});
    return found == contents.end() ? Content::Finite : found->second;
  }
  LogicalResult visit(graph::GraphOpInterface op);
  LogicalResult makeNeutral(Operation *op, const graph::ShardingRule &rule, unsigned factor);
  void mask(Operation *user, unsigned operand, int64_t dim, Content wanted);
  Content transfer(Operation *op, ArrayRef<Content> in, int64_t resultDim);

  Paddings &paddings;
  DenseMap<std::pair<Value, int64_t>, Content> contents;
};
} // namespace

static bool isTame(Content c) { return c == Content::Finite || c == Content::Zero; }

static Content addContents(Content a, Content b) {
  if (a == b)
    return a;
  if (isTame(a) && isTame(b))
    return Content::Finite;
  if ((a == Content::NegInf && isTame(b)) || (b == Content::NegInf && isTame(a)))
    return Content::NegInf;
  return Content::Unknown;
}

static Content subContents(Content a, Content b) {
  if (!isTame(b))
    return Content::Unknown;
  if (a == Content::NegInf)
    return a;
  return isTame(a) ? (a == b ? a : Content::Finite) : Content::Unknown;
}

static Content mulContents(Content a, Content b) {
  if (!isTame(a) || !isTame(b))
    return Content::Unknown;
  return a == Content::Zero || b == Content::Zero ? Content::Zero : Content::Finite;
}

static Content ofNumber(double value) {
  if (value == 0)
    return Content::Zero;
  if (std::isinf(value) && value < 0)
    return Content::NegInf;
  return std::isfinite(value) ? Content::Finite : Content::Unknown;
}

static Content ofConstant(graph::ConstantOp op) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense || !dense.isSplat() || !isa<FloatType>(dense.getElementType()))
    return Content::Unknown;
  return ofNumber(dense.getSplatValue<APFloat>().convertToDouble());
}

// Returns the contents of a result's padding, from that of the operands along the same factor
// (`Finite` for an operand that does not carry the factor).
Content Masker::transfer(Operation *op, ArrayRef<Content> in, int64_t resultDim) {
  return llvm::TypeSwitch<Operation *, Content>(op)
      .Case([&](graph::ConstantOp c) { return ofConstant(c); })
      .Case([&](graph::MaskTailOp m) {
        return static_cast<int64_t>(m.getDim()) == resultDim ? ofNumber(m.getValue().convertToDouble())
                                                             : in[0];
      })
      .Case<graph::OneHotOp, graph::ScatterAddOp>([&](auto) { return Content::Zero; })
      .Case([&](graph::AddOp) { return addContents(in[0], in[1]); })
      .Case([&](graph::SubOp) { return subContents(in[0], in[1]); })
      .Case<graph::MulOp, graph::MatmulOp>([&](auto) { return mulContents(in[0], in[1]); })
      .Case([&](graph::DivOp div) {
        return paddings.contains(div.getRhs()) || !isTame(in[0]) ? Content::Unknown : in[0];
      })
      .Case([&](graph::ExpOp) {
        return in[0] == Content::NegInf ? Content::Zero : Content::Unknown;
      })
      .Case([&](graph::NegOp) { return isTame(in[0]) ? in[0] : Content::Unknown; })
      // A reduction over another dimension makes zeros of zeros, and finite numbers of finite ones.
      .Case([&](graph::ReduceOp) { return isTame(in[0]) ? in[0] : Content::Unknown; })
      .Case([&](graph::SelectOp) { return in[1] == in[2] ? in[1] : Content::Unknown; })
      .Case<graph::CastOp, graph::ReshapeOp, graph::TransposeOp, graph::BroadcastOp,
            graph::SliceOp>([&](auto) { return in[0]; })
      .Case([&](graph::AdamWOp) {
        return llvm::all_of(in, isTame) ? Content::Finite : Content::Unknown;
      })
      .Default([](Operation *) { return Content::Unknown; });
}

// Inserts a mask before `user`, which `user` and all users after it read.
void Masker::mask(Operation *user, unsigned operand, int64_t dim, Content wanted) {
  Value value = user->getOperand(operand);
  int64_t valid = 0;
  for (Padding padding : paddings[value])
    if (padding.dim == dim)
      valid = padding.valid;
  OpBuilder builder(user);
  double number = wanted == Content::Zero ? 0.0 : -std::numeric_limits<double>::infinity();
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
    Content wanted = reduce.getKind() == graph::ReduceKind::max ? Content::NegInf : Content::Zero;
    if (content(0) != wanted)
      mask(op, carriers[0].first, carriers[0].second, wanted);
    return success();
  }
  if (!isa<graph::MatmulOp>(op))
    return op->emitOpError("D2: reduces over a padded dimension and has no neutral element for it");
  // The products are neutral if one factor is zero and the other finite.
  bool anyZero = llvm::any_of(llvm::seq(carriers.size()),
                              [&](size_t k) { return content(k) == Content::Zero; });
  for (size_t k = 0; k < carriers.size(); ++k) {
    if (isTame(content(k)) && anyZero)
      continue;
    mask(op, carriers[k].first, carriers[k].second, Content::Zero);
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
      SmallVector<Content> in;
      for (auto [i, dims] : llvm::enumerate(rule.operands)) {
        Content content = Content::Finite;
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
        if (get(use.get(), padding.dim) != Content::Zero)
          mask(ret, use.getOperandNumber(), padding.dim, Content::Zero);
}

LogicalResult Masker::run(Block &block) {
  auto func = dyn_cast<func::FuncOp>(block.getParentOp());
  for (BlockArgument arg : block.getArguments())
    for (Padding padding : paddings.lookup(arg)) {
      bool isZero = func && isAccumulator(func.getArgAttr(arg.getArgNumber(), kState), func);
      // The padding of other states is finite; that of a repeat's body arguments is unknown.
      contents[{arg, padding.dim}] = isZero ? Content::Zero : func ? Content::Finite : Content::Unknown;
    }
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto repeat = dyn_cast<graph::RepeatOp>(op)) {
      if (failed(run(repeat.getBlock())))
        return failure();
      for (Value result : op.getResults())
        for (Padding padding : paddings.lookup(result))
          contents[{result, padding.dim}] = Content::Unknown;
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
