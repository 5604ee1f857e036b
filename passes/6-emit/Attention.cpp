// Attention, forward: each query row walks its keys in blocks with a running
// maximum and sum, so that no rows x keys matrix exists.
#include "passes/6-emit/Families.h"
#include "passes/6-emit/HeadRow.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace llmc::emit {

namespace {

// One query row of one head: q at qStart, keys from kvStart in steps of kvStep.
struct QueryRow {
  Kernel &k;
  const AttentionShape &shape;
  HeadRow head;
  Value keys, values, scores;
  Type f32;

  Value score(Value j) { return k.address(scores, j, f32); }
  Value constant(double value) {
    return arith::ConstantOp::create(k.b, k.loc, k.b.getFloatAttr(f32, value));
  }
  Value splat(Value scalar) {
    return vector::BroadcastOp::create(k.b, k.loc, typeOf(f32, Kernel::kLanes), scalar);
  }
  Value lanes(Value vector, vector::CombiningKind kind) {
    return vector::ReductionOp::create(k.b, k.loc, kind, vector, arith::FastMathFlags::reassoc);
  }
  void eachVector(const std::function<void(Value place)> &body) {
    for (int64_t at = 0; at < kKeyBlock; at += Kernel::kLanes)
      body(score(k.index(at)));
  }

  // Scores of keys [from, to), -inf for the rest of the block; their maximum.
  Value blockScores(const HeadRow::Row &q, Value from, Value to, Value kvStart) {
    Math m{k.b, k.loc};
    Value nothing = splat(constant(-std::numeric_limits<double>::infinity()));
    eachVector([&](Value place) { k.store(nothing, place); });
    k.loop(from, to, 1, [&](Value j) {
      Value start = k.add(kvStart, k.mul(j, shape.kvHeads * shape.dim));
      k.store(head.dot(q, keys, start), score(k.sub(j, from)));
    });
    Value largest = nothing;
    eachVector(
        [&](Value place) { largest = m.larger(k.load(place, f32, Kernel::kLanes), largest); });
    return lanes(largest, vector::CombiningKind::MAXNUMF);
  }

  // exp(score - shift) in place; returns the sum.
  Value blockPowers(Value shift) {
    Math m{k.b, k.loc};
    Value total, wide = splat(shift);
    eachVector([&](Value place) {
      Value p = m.exp(m.sub(k.load(place, f32, Kernel::kLanes), wide));
      k.store(p, place);
      total = total ? m.add(total, p) : p;
    });
    return lanes(total, vector::CombiningKind::ADD);
  }

  // Returns the row of o and its lse.
  std::pair<HeadRow::Row, Value> run(const HeadRow::Row &q, Value limit, Value kvStart) {
    Math m{k.b, k.loc};
    SmallVector<Value> init{constant(-std::numeric_limits<double>::infinity()), constant(0)};
    llvm::append_range(init, head.zero());
    auto state =
        k.loop(k.index(0), limit, kKeyBlock, init,
               [&](Value from, ValueRange carried, SmallVectorImpl<Value> &next) {
                 Value to = k.min(k.add(from, k.index(kKeyBlock)), limit);
                 Value largest = m.larger(blockScores(q, from, to, kvStart), carried[0]);
                 Value shrink = m.exp(m.sub(carried[0], largest));
                 Value sum = m.fma(carried[1], shrink, blockPowers(largest));
                 HeadRow::Row o = head.scale(HeadRow::Row(carried.drop_front(2)), shrink);
                 auto added = k.loop(
                     from, to, 1, o, [&](Value j, ValueRange row, SmallVectorImpl<Value> &out) {
                       Value start = k.add(kvStart, k.mul(j, shape.kvHeads * shape.dim));
                       Value p = k.load(score(k.sub(j, from)), f32);
                       llvm::append_range(out, head.axpy(p, head.load(values, start), row));
                     });
                 next.append({largest, sum});
                 llvm::append_range(next, added);
               });
    HeadRow::Row o =
        head.scale(HeadRow::Row(llvm::drop_begin(state, 2)), m.div(constant(1), state[1]));
    return {o, m.add(state[0], m.log(state[1]))};
  }
};

} // namespace

LogicalResult emitAttention(Kernel &k, LaunchBody body, Operation *op) {
  auto attention = cast<graph::AttentionOp>(op);
  auto type = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  AttentionShape shape(type(attention.getQ()), type(attention.getK()), attention.getCausal(),
                       attention.getScale().convertToDouble());
  auto buffer = [&](Value v) { return k.buffer(cast<BlockArgument>(v).getArgNumber()); };
  Type f32 = k.b.getF32Type();
  Value queries = buffer(attention.getQ());
  QueryRow row{k,
               shape,
               HeadRow{k, shape.dim},
               buffer(attention.getK()),
               buffer(attention.getV()),
               k.stackArray(f32, kKeyBlock),
               f32};
  Value o = k.buffer(body.reads), lse = k.buffer(body.reads + 1);
  Value scale = row.constant(shape.scale);
  k.rows = shape.batch * shape.heads;
  k.loop(k.begin, k.end, 1, [&](Value r) {
    Value batch = k.divFloor(r, shape.heads), head = k.modulo(r, shape.heads);
    Value kvHead = k.divFloor(head, shape.heads / shape.kvHeads);
    Value kvStart = k.mul(k.add(k.mul(batch, shape.keys * shape.kvHeads), kvHead), shape.dim);
    k.loop(k.index(0), k.index(shape.rows), 1, [&](Value i) {
      Value place = k.add(k.mul(k.add(k.mul(batch, shape.rows), i), shape.heads), head);
      Value start = k.mul(place, shape.dim);
      HeadRow::Row q = row.head.scale(row.head.load(queries, start), scale);
      Value limit = shape.causal ? k.add(i, k.index(1)) : k.index(shape.keys);
      auto [result, logSum] = row.run(q, limit, kvStart);
      row.head.store(result, o, start);
      k.store(logSum, k.address(lse, place, f32));
    });
  });
  return success();
}

} // namespace llmc::emit
