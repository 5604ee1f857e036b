// Emits the choice of experts. The scores of a row lie on the stack.
#include "passes/6-emit/experts/RouteKernel.h"
#include "passes/6-emit/kernel/Math.h"

#include <limits>

using namespace mlir;

namespace llmc::emit {

static constexpr int64_t kClosed = std::numeric_limits<int64_t>::min();

namespace {

// Picks the largest scores of a row. A key is an integer that is larger where a score is better: the order of
// floats in its upper half, that of numbers in its lower one; the next best is the largest key below the last.
struct Router : RouteKernel {
  graph::RouteOp op;
  int64_t experts, choices, groups, inGroup;
  unsigned width; // of vectors along the keys, which closed ones fill up
  int64_t padded;
  Value keys, groupKeys;

  Router(Kernel &kernel, LaunchBody body, graph::RouteOp op)
      : RouteKernel(kernel, body), op(op), experts(shapeOf(op.getScores()).back()),
        choices(shapeOf(op.getRoutes()).back()), groups(op.getGroups()), inGroup(experts / groups),
        width(k.target.threads || experts < k.lanes() ? 1 : k.lanes()),
        padded(llvm::divideCeil(experts, width) * width), keys(k.stackArray(i64, padded)) {
    if (groups > 1)
      groupKeys = k.stackArray(i64, groups);
  }

  Value bits(Value x, int64_t mask) {
    Value flip = arith::ConstantOp::create(k.b, k.loc, k.b.getI32IntegerAttr(mask));
    Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getI32IntegerAttr(0));
    return select(less(x, zero), arith::XOrIOp::create(k.b, k.loc, x, flip), x);
  }
  // Returns the key of `score`, number `i` of `count`. Zeros of either sign are equal.
  Value keyOf(Value score, Value i, int64_t count) {
    Math m{k.b, k.loc};
    auto is = [&](arith::CmpFPredicate predicate, Value y) -> Value {
      return arith::CmpFOp::create(k.b, k.loc, predicate, score, y);
    };
    Value isNan = is(arith::CmpFPredicate::UNO, score), zero = m.f(0, score);
    score = select(is(arith::CmpFPredicate::OEQ, zero), zero, score);
    Type i32 = k.b.getI32Type();
    Value order = bits(arith::BitcastOp::create(k.b, k.loc, i32, score), kMagnitude);
    Value last = arith::ConstantOp::create(k.b, k.loc, k.b.getI32IntegerAttr(kNan));
    order = arith::ExtSIOp::create(k.b, k.loc, i64, select(isNan, last, order));
    order = arith::ShLIOp::create(k.b, k.loc, order, k.index(32));
    return arith::OrIOp::create(k.b, k.loc, order, k.sub(k.index(count - 1), i));
  }
  Value scoreOf(Value key) {
    Value order = arith::ShRSIOp::create(k.b, k.loc, key, k.index(32));
    order = arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), order);
    return arith::BitcastOp::create(k.b, k.loc, k.b.getF32Type(), bits(order, kMagnitude));
  }
  // Returns the largest of `size` keys that is below `limit`.
  Value largest(Value array, Value low, int64_t size, Value limit, unsigned width) {
    Value none = splat(k.index(kClosed), width);
    limit = splat(limit, width);
    Value best = carry(low, k.add(low, k.index(size)), width, none, [&](Value i, Value best) -> Value {
      Value key = load(array, i, width);
      key = select(less(key, limit), key, none);
      return arith::MaxSIOp::create(k.b, k.loc, best, key);
    });
    return reduced(vector::CombiningKind::MAXSI, best);
  }
  Value noLimit() { return k.index(std::numeric_limits<int64_t>::max()); }

  void readRow(Value row);
  void keepGroups();
  void chooseExperts(Value row);

private:
  static constexpr int64_t kMagnitude = std::numeric_limits<int32_t>::max();
  static constexpr int64_t kNan = std::numeric_limits<int32_t>::min() + 1; // below that of -inf
};

} // namespace

void Router::readRow(Value row) {
  Type type = getElementTypeOrSelf(op.getScores());
  Value scores = read(op.getScores()), start = k.mul(row, experts);
  k.loop(k.index(0), k.index(experts), 1, [&](Value e) {
    Value score = k.load(k.address(scores, k.add(start, e), type), type);
    if (Value bias = op.getBias()) {
      Type type = getElementTypeOrSelf(bias);
      score = Math{k.b, k.loc}.add(score, k.load(k.address(read(bias), e, type), type));
    }
    store(keyOf(score, e, experts), keys, e);
  });
  fill(keys, k.index(experts), k.index(padded), kClosed);
}

// Closes the experts of all groups but the best.
void Router::keepGroups() {
  k.loop(k.index(0), k.index(groups), 1, [&](Value g) {
    Value zero = Math{k.b, k.loc}.f(0, scoreOf(k.index(0)));
    Value sum = k.loop(k.index(0), k.index(op.getGroupTerms()), 1, {noLimit(), zero},
                       [&](Value, ValueRange carried, SmallVectorImpl<Value> &next) {
                         Value key = largest(keys, k.mul(g, inGroup), inGroup, carried[0], 1);
                         next.push_back(key);
                         next.push_back(Math{k.b, k.loc}.add(carried[1], scoreOf(key)));
                       })[1];
    store(keyOf(sum, g, groups), groupKeys, g);
  });
  Value worst = carry(k.index(0), k.index(op.getKeptGroups()), 1, noLimit(), [&](Value, Value limit) {
    return largest(groupKeys, k.index(0), groups, limit, 1);
  });
  k.loop(k.index(0), k.index(groups), 1, [&](Value g) {
    k.ifThen(less(load(groupKeys, g), worst), [&] {
      Value low = k.mul(g, inGroup);
      fill(keys, low, k.add(low, k.index(inGroup)), kClosed);
    });
  });
}

void Router::chooseExperts(Value row) {
  Value to = written(0), start = k.mul(row, choices);
  carry(k.index(0), k.index(choices), 1, noLimit(), [&](Value c, Value limit) {
    Value key = largest(keys, k.index(0), padded, limit, width);
    Value number = arith::AndIOp::create(k.b, k.loc, key, k.index(std::numeric_limits<uint32_t>::max()));
    store(k.sub(k.index(experts - 1), number), to, k.add(start, c));
    return key;
  });
}

LogicalResult emitRoute(Kernel &k, LaunchBody body, Operation *op) {
  auto route = cast<graph::RouteOp>(op);
  if (failed(checkExperts(op, shapeOf(route.getScores()).back())))
    return failure();
  Router router(k, body, route);
  k.rows = sizeOf(route.getRoutes()) / router.choices;
  k.eachRow(k.begin, k.end, [&](Value row) {
    router.readRow(row);
    if (router.groups > 1)
      router.keepGroups();
    router.chooseExperts(row);
  });
  return success();
}

} // namespace llmc::emit
