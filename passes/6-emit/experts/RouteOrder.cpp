// Emits the capacity of experts and the order of rows by their experts. Experts are counted on the stack.
#include "passes/6-emit/experts/RouteKernel.h"

using namespace mlir;

namespace llmc::emit {

LogicalResult emitLimitRoutes(Kernel &k, LaunchBody body, Operation *op) {
  auto limit = cast<graph::LimitRoutesOp>(op);
  int64_t experts = limit.getExperts();
  if (failed(checkExperts(op, experts)))
    return failure();
  RouteKernel r(k, body);
  ArrayRef<int64_t> shape = shapeOf(limit.getRoutes());
  int64_t size = shape[shape.size() - 2] * shape.back();
  k.rows = sizeOf(limit.getRoutes()) / size;
  Value from = r.read(limit.getRoutes()), to = r.written(0), taken = k.stackArray(r.i64, experts);
  k.eachRow(k.begin, k.end, [&](Value row) {
    Value start = k.mul(row, size);
    r.fill(taken, k.index(0), k.index(experts), 0);
    k.loop(start, k.add(start, k.index(size)), 1, [&](Value i) {
      Value route = r.load(from, i), isExpert = r.isBelow(route, experts);
      Value at = r.select(isExpert, route, k.index(0)), count = r.load(taken, at);
      Value isFull = r.compare(arith::CmpIPredicate::sge, count, k.index(limit.getCapacity()));
      r.store(k.add(count, r.one(isExpert)), taken, at);
      r.store(r.select(r.both(isExpert, isFull), k.index(-1), route), to, i);
    });
  });
  return success();
}

// Emits sort_routes: counts, their running sums, then each route in its turn.
LogicalResult emitSortRoutes(Kernel &k, LaunchBody body, Operation *op) {
  auto sort = cast<graph::SortRoutesOp>(op);
  int64_t experts = sort.getExperts(), parts = shapeOf(sort.getCounts())[0], inPart = experts / parts;
  if (failed(checkExperts(op, experts)))
    return failure();
  RouteKernel r(k, body);
  Value zero = k.index(0), size = k.index(sizeOf(sort.getRoutes())), from = r.read(sort.getRoutes());
  Value places = r.written(0), sorted = r.written(1), counts = r.written(2);
  Value next = k.stackArray(r.i64, experts);
  k.eachRow(k.begin, k.end, [&](Value) {
    r.fill(next, zero, k.index(experts), 0);
    k.loop(zero, size, 1, [&](Value i) {
      Value route = r.load(from, i), isExpert = r.isBelow(route, experts);
      Value at = r.select(isExpert, route, zero);
      r.store(k.add(r.load(next, at), r.one(isExpert)), next, at);
    });
    Value total = r.carry(zero, k.index(parts), 1, zero, [&](Value part, Value before) {
      Value first = k.mul(part, inPart);
      Value after = r.carry(first, k.add(first, k.index(inPart)), 1, before, [&](Value e, Value sum) {
        Value count = r.load(next, e);
        r.store(sum, next, e);
        return k.add(sum, count);
      });
      r.store(k.sub(after, before), counts, part);
      return after;
    });
    r.fill(sorted, total, size, -1);
    k.loop(zero, size, 1, [&](Value i) {
      Value route = r.load(from, i), isExpert = r.isBelow(route, experts);
      Value at = r.select(isExpert, route, zero), place = r.load(next, at);
      r.store(r.select(isExpert, place, k.index(-1)), places, i);
      k.ifThen(isExpert, [&] {
        r.store(route, sorted, place);
        r.store(k.add(place, k.index(1)), next, at);
      });
    });
  });
  return success();
}

// Emits arrived_routes: each row finds the rank that it came from. The first one also counts what is lost, and
// the others add nothing to that.
LogicalResult emitArrivedRoutes(Kernel &k, LaunchBody body, Operation *op) {
  auto arrive = cast<graph::ArrivedRoutesOp>(op);
  RouteKernel r(k, body);
  int64_t room = sizeOf(arrive.getSorted());
  k.rows = std::max(room, sizeOf(arrive.getLost()));
  Value counts = r.read(arrive.getCounts()), sorted = r.read(arrive.getSorted());
  Value arrived = r.written(0), sources = r.written(1), lost = r.written(2), none = k.index(-1);
  Type element = getElementTypeOrSelf(arrive.getLost());
  k.eachRow(k.begin, k.end, [&](Value i) {
    auto found = k.loop(k.index(0), k.index(sizeOf(arrive.getCounts())), 1, {k.index(0), none},
                        [&](Value rank, ValueRange carried, SmallVectorImpl<Value> &next) {
                          Value after = k.add(carried[0], k.max(r.load(counts, rank), k.index(0)));
                          Value isFrom = r.both(r.less(i, after), r.less(carried[1], k.index(0)));
                          next.append({after, r.select(isFrom, rank, carried[1])});
                        });
    k.ifThen(r.less(i, k.index(room)), [&] {
      Value isThere = r.compare(arith::CmpIPredicate::sge, found[1], k.index(0));
      r.store(r.select(isThere, r.load(sorted, i), none), arrived, i);
      r.store(found[1], sources, i);
    });
    k.ifThen(r.less(i, k.index(sizeOf(arrive.getLost()))), [&] {
      Value isFirst = r.compare(arith::CmpIPredicate::eq, i, k.index(0));
      Value count = r.select(isFirst, k.max(k.sub(found[0], k.index(room)), k.index(0)), k.index(0));
      Value number = arith::SIToFPOp::create(k.b, k.loc, computingType(element), count);
      k.store(number, k.address(lost, i, element), element);
    });
  });
  return success();
}

// Emits count_sources: each row of the result counts its own number, in vectors.
LogicalResult emitCountSources(Kernel &k, LaunchBody body, Operation *op) {
  auto count = cast<graph::CountSourcesOp>(op);
  RouteKernel r(k, body);
  k.rows = sizeOf(count.getCounts());
  int64_t size = sizeOf(count.getSources());
  unsigned width = k.target.threads ? 1 : k.lanes();
  int64_t whole = size / width * width;
  Value from = r.read(count.getSources()), to = r.written(0);
  k.eachRow(k.begin, k.end, [&](Value row) {
    auto counted = [&](int64_t low, int64_t high, unsigned width) {
      Value zero = r.splat(k.index(0), width), wanted = r.splat(row, width);
      Value sum = r.carry(k.index(low), k.index(high), width, zero, [&](Value i, Value sum) {
        return k.add(sum, r.one(r.compare(arith::CmpIPredicate::eq, r.load(from, i, width), wanted)));
      });
      return r.reduced(vector::CombiningKind::ADD, sum);
    };
    Value sum = counted(0, whole, width);
    r.store(whole < size ? k.add(sum, counted(whole, size, 1)) : sum, to, row);
  });
  return success();
}

} // namespace llmc::emit
