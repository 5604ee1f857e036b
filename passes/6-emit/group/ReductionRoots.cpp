// Emits the ops that reduce: sums, softmax, norms and their gradients. Each gives the terms to
// sum and derives its results; Reduction.cpp builds the loops.
#include "passes/6-emit/group/Reduction.h"

#include "llvm/ADT/DenseMap.h"
#include <limits>

using namespace mlir;

namespace llmc::emit {

static SmallVector<bool, 4> lastDim(Operation *op) {
  SmallVector<bool, 4> dims(cast<RankedTensorType>(op->getOperand(0).getType()).getRank(), false);
  dims.back() = true;
  return dims;
}
static SmallVector<bool, 4> leadingDims(Operation *op) {
  SmallVector<bool, 4> dims(cast<RankedTensorType>(op->getOperand(0).getType()).getRank(), true);
  dims.back() = false;
  return dims;
}
static SmallVector<bool, 4> namedDims(Operation *op) {
  SmallVector<bool, 4> dims(cast<RankedTensorType>(op->getOperand(0).getType()).getRank(), false);
  for (int64_t d : cast<graph::ReduceOp>(op).getDims())
    dims[d] = true;
  return dims;
}

static void emitReduce(Reducer &r, Operation *op) {
  auto reduce = cast<graph::ReduceOp>(op);
  Math m = r.group.math();
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  bool isMax = reduce.getKind() == graph::ReduceKind::max;
  bool squares = reduce.getKind() == graph::ReduceKind::sum_squares;
  bool isPositive = op->getOperand(0).getDefiningOp<graph::ExpOp>() && !squares;
  auto term = [&](Point &p) -> Value {
    Value x = r.group.rootOperand(op, 0, p);
    if (!squares)
      return x;
    return isa<FloatType>(element) ? m.mul(x, x)
                                   : arith::MulIOp::create(m.b, m.loc, x, x).getResult();
  };
  r.group.defineRow(op->getResult(0), !isa<FloatType>(element) ? r.integers(isMax, element, term)
                                      : isMax                  ? r.maximum(term)
                                      : isPositive             ? r.sumOfPositive(term)
                                                               : r.sum(term));
}

static void emitSoftmax(Reducer &r, Operation *op) {
  Math m = r.group.math();
  auto x = [&r, op](Point &p) { return r.group.rootOperand(op, 0, p); };
  Value largest = r.maximum(x);
  // A row that is all -inf has nothing to shift by, and its sum is zero.
  Value infinite = m.f(-std::numeric_limits<double>::infinity(), largest);
  Value isEmpty = arith::CmpFOp::create(m.b, m.loc, arith::CmpFPredicate::OEQ, largest, infinite);
  Value shift = m.select(isEmpty, m.f(0, largest), largest);
  auto power = [&r, x, shift](Point &p) {
    Math m = r.group.math();
    return m.expNonPositive(m.sub(x(p), r.group.spread(shift, p)));
  };
  FusedGroup *group = &r.group;
  Type element = group->kernel.b.getF32Type();
  Value kept = r.rowArray(element);
  Value total = r.sumOfPositive([&](Point &p) {
    Value y = power(p);
    if (kept)
      group->kernel.store(y, group->kernel.address(kept, p.index.back(), element));
    return y;
  });
  Value scale = m.select(isEmpty, m.f(0, total), m.div(m.f(1, total), total));
  r.group.defineElements(op->getResult(0), [group, kept, element, power, scale](Point &p) {
    Kernel &k = group->kernel;
    Value y = kept ? k.load(k.address(kept, p.index.back(), element), element, p.width) : power(p);
    return group->math().mul(y, group->spread(scale, p));
  });
}

static void emitSoftmaxGrad(Reducer &r, Operation *op) {
  Math m = r.group.math();
  Value dot = r.sum([&](Point &p) {
    return m.mul(r.group.rootOperand(op, 0, p), r.group.rootOperand(op, 1, p));
  });
  FusedGroup *group = &r.group;
  r.group.defineElements(op->getResult(0), [group, op, dot](Point &p) {
    Math m = group->math();
    Value difference = m.sub(group->rootOperand(op, 1, p), group->spread(dot, p));
    return m.mul(group->rootOperand(op, 0, p), difference);
  });
}

static void emitLayerNorm(Reducer &r, Operation *op) {
  auto norm = cast<graph::LayerNormOp>(op);
  Math m = r.group.math();
  double n = Reducer::count(op);
  Value total = r.sum([&](Point &p) { return r.group.rootOperand(op, 0, p); });
  Value mean = m.div(total, m.f(n, total));
  Value squares = r.sum([&](Point &p) {
    Value d = m.sub(r.group.rootOperand(op, 0, p), r.group.spread(mean, p));
    return m.mul(d, d);
  });
  Value variance = m.div(squares, m.f(n, squares));
  Value eps = m.f(norm.getEps().convertToDouble(), variance);
  Value rstd = m.div(m.f(1, variance), m.sqrt(m.add(variance, eps)));
  FusedGroup *group = &r.group;
  group->defineElements(norm.getY(), [group, op, mean, rstd](Point &p) {
    Math m = group->math();
    Value x = group->rootOperand(op, 0, p);
    Value xhat = m.mul(m.sub(x, group->spread(mean, p)), group->spread(rstd, p));
    return m.fma(xhat, group->rootOperand(op, 1, p), group->rootOperand(op, 2, p));
  });
  group->defineRow(norm.getMean(), mean);
  group->defineRow(norm.getRstd(), rstd);
}

// Returns (x - mean) * rstd; rstd is the operand after mean.
static Value normalised(FusedGroup &g, Operation *op, unsigned x, unsigned mean, Point &p) {
  Math m = g.math();
  return m.mul(m.sub(g.rootOperand(op, x, p), g.rootOperand(op, mean, p)),
               g.rootOperand(op, mean + 1, p));
}

static void emitLayerNormGrad(Reducer &r, Operation *op) {
  Math m = r.group.math();
  FusedGroup *group = &r.group;
  auto scaled = [group, op](Point &p) {
    return group->math().mul(group->rootOperand(op, 0, p), group->rootOperand(op, 2, p));
  };
  auto sums = r.sums(2, [&](Point &p) {
    Value g = scaled(p);
    return SmallVector<Value>{g, m.mul(g, normalised(*group, op, 1, 3, p))};
  });
  double n = Reducer::count(op);
  Value lessG = m.div(sums[0], m.f(-n, sums[0])), lessGx = m.div(sums[1], m.f(-n, sums[1]));
  group->defineElements(op->getResult(0), [group, op, lessG, lessGx](Point &p) {
    Math m = group->math();
    Value xhat = normalised(*group, op, 1, 3, p);
    Value centred = m.fma(group->rootOperand(op, 0, p), group->rootOperand(op, 2, p),
                          group->spread(lessG, p));
    centred = m.fma(xhat, group->spread(lessGx, p), centred);
    return m.mul(group->rootOperand(op, 4, p), centred);
  });
}

static void emitLayerNormGradScale(Reducer &r, Operation *op) {
  Math m = r.group.math();
  r.group.defineRow(op->getResult(0), r.sum([&](Point &p) {
    return m.mul(r.group.rootOperand(op, 0, p), normalised(r.group, op, 1, 2, p));
  }));
}

static void emitRmsNorm(Reducer &r, Operation *op) {
  auto norm = cast<graph::RmsNormOp>(op);
  Math m = r.group.math();
  Value squares = r.sum([&](Point &p) {
    Value x = r.group.rootOperand(op, 0, p);
    return m.mul(x, x);
  });
  Value mean = m.div(squares, m.f(Reducer::count(op), squares));
  Value eps = m.f(norm.getEps().convertToDouble(), mean);
  Value rstd = m.div(m.f(1, mean), m.sqrt(m.add(mean, eps)));
  FusedGroup *group = &r.group;
  group->defineElements(norm.getY(), [group, op, rstd](Point &p) {
    Math m = group->math();
    Value xhat = m.mul(group->rootOperand(op, 0, p), group->spread(rstd, p));
    return m.mul(xhat, group->rootOperand(op, 1, p));
  });
  group->defineRow(norm.getRstd(), rstd);
}

static void emitRmsNormGrad(Reducer &r, Operation *op) {
  Math m = r.group.math();
  FusedGroup *group = &r.group;
  auto scaled = [group, op](Point &p) {
    return group->math().mul(group->rootOperand(op, 0, p), group->rootOperand(op, 2, p));
  };
  auto xhat = [group, op](Point &p) {
    return group->math().mul(group->rootOperand(op, 1, p), group->rootOperand(op, 3, p));
  };
  Value dot = r.sum([&](Point &p) { return m.mul(scaled(p), xhat(p)); });
  Value mean = m.div(dot, m.f(Reducer::count(op), dot));
  group->defineElements(op->getResult(0), [group, op, scaled, xhat, mean](Point &p) {
    Math m = group->math();
    Value along = m.mul(xhat(p), group->spread(mean, p));
    return m.mul(group->rootOperand(op, 3, p), m.sub(scaled(p), along));
  });
}

static void emitRmsNormGradScale(Reducer &r, Operation *op) {
  Math m = r.group.math();
  r.group.defineRow(op->getResult(0), r.sum([&](Point &p) {
    Value xhat = m.mul(r.group.rootOperand(op, 1, p), r.group.rootOperand(op, 2, p));
    return m.mul(r.group.rootOperand(op, 0, p), xhat);
  }));
}

const ReductionRoot *lookupReductionRoot(Operation *op) {
  static const llvm::DenseMap<TypeID, ReductionRoot> table = {
      {TypeID::get<graph::ReduceOp>(), {0, 1, namedDims, emitReduce}},
      {TypeID::get<graph::SoftmaxOp>(), {0, 2, lastDim, emitSoftmax}},
      {TypeID::get<graph::SoftmaxGradOp>(), {0, 1, lastDim, emitSoftmaxGrad}},
      {TypeID::get<graph::LayerNormOp>(), {0, 2, lastDim, emitLayerNorm}},
      {TypeID::get<graph::LayerNormGradOp>(), {0b11000, 1, lastDim, emitLayerNormGrad}},
      {TypeID::get<graph::LayerNormGradScaleOp>(),
       {0b1100, 1, leadingDims, emitLayerNormGradScale}},
      {TypeID::get<graph::RmsNormOp>(), {0, 1, lastDim, emitRmsNorm}},
      {TypeID::get<graph::RmsNormGradOp>(), {0b1000, 1, lastDim, emitRmsNormGrad}},
      {TypeID::get<graph::RmsNormGradScaleOp>(), {0b100, 1, leadingDims, emitRmsNormGradScale}},
  };
  auto it = table.find(op->getName().getTypeID());
  return it == table.end() ? nullptr : &it->second;
}

} // namespace llmc::emit
