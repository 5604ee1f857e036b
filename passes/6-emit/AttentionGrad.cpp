// Attention, backward: probabilities again from lse, block by block. A part owns
// kv heads, so that sums into dk and dv have one writer and one order.
#include "passes/6-emit/Families.h"
#include "passes/6-emit/HeadRow.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace llmc::emit {

namespace {

// Row i of one head: `place` is its number among all rows of q; keys and values
// start at kvStart of their buffers. `shift` is the lse.
struct Query {
  Value batch, head, i, place, kvStart;
  HeadRow::Row q, dO;
  Value shift, delta;
};

struct GradKernel {
  Kernel &k;
  const AttentionShape &shape;
  HeadRow head;
  Type f32;
  Value dO, q, key, value, o, lse; // inputs
  Value dQ, dK, dV;                // outputs
  Value weights, slopes, factors;  // p, ds and the slope of softcap, of a block of keys

  Value splat(Value scalar) {
    return vector::BroadcastOp::create(k.b, k.loc, typeOf(f32, k.lanes()), scalar);
  }
  Value constant(double number) {
    return arith::ConstantOp::create(k.b, k.loc, k.b.getFloatAttr(f32, number));
  }
  Value keyStart(Value kvStart, Value j) {
    return k.add(kvStart, k.mul(j, shape.kvHeads * shape.dim));
  }

  // q . k and dO . v of keys [from, to).
  void blockProducts(const Query &query, Value from, Value to) {
    Value nothing = splat(constant(-std::numeric_limits<double>::infinity()));
    Value zero = splat(constant(0));
    for (int64_t at = 0; at < kKeyBlock; at += k.lanes()) {
      k.store(nothing, k.address(weights, k.index(at), f32));
      k.store(zero, k.address(slopes, k.index(at), f32));
    }
    k.loop(from, to, 1, [&](Value j) {
      Value slot = k.sub(j, from), start = keyStart(query.kvStart, j);
      k.store(head.dot(query.q, key, start), k.address(weights, slot, f32));
      k.store(head.dot(query.dO, value, start), k.address(slopes, slot, f32));
    });
  }

  // p = exp(score - lse) and ds = scale p (dp - delta), times the slope of softcap.
  void blockWeights(const Query &query, Value from, Value to) {
    Math m{k.b, k.loc};
    blockProducts(query, from, to);
    ScoreRule rule{k, shape};
    auto places = [&](const std::function<void(Value at)> &body) {
      for (int64_t at = 0; at < kKeyBlock; at += k.lanes())
        body(k.index(at));
    };
    auto load = [&](Value array, Value at) {
      return k.load(k.address(array, at, f32), f32, k.lanes());
    };
    Value scale = splat(constant(shape.scale));
    if (!rule.isPlain()) {
      places(
          [&](Value at) { k.store(m.mul(load(weights, at), scale), k.address(weights, at, f32)); });
      rule.apply(weights, factors, from, to, query.batch, query.head, query.i);
    }
    places([&](Value at) {
      Value s = load(weights, at);
      Value p = m.exp(m.sub(rule.isPlain() ? m.mul(s, scale) : s, splat(query.shift)));
      Value dp = m.sub(load(slopes, at), splat(query.delta));
      Value ds = m.mul(m.mul(p, dp), scale);
      if (factors)
        ds = m.mul(ds, load(factors, at));
      k.store(p, k.address(weights, at, f32));
      k.store(ds, k.address(slopes, at, f32));
    });
  }

  void addTo(Value base, Value start, Value factor, const HeadRow::Row &row) {
    head.store(head.axpy(factor, row, head.load(base, start)), base, start);
  }

  // One query row against the keys that it sees.
  void queryRow(Query query) {
    Math m{k.b, k.loc};
    Value start = k.mul(query.place, shape.dim);
    query.q = head.load(q, start), query.dO = head.load(dO, start);
    query.delta = head.dot(query.dO, o, start);
    query.shift = k.load(k.address(lse, query.place, f32), f32);
    // A row that sees nothing has an lse of -inf, and no weights.
    Value infinity = constant(std::numeric_limits<double>::infinity());
    Value isNothing =
        arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ, query.shift, m.neg(infinity));
    query.shift = m.select(isNothing, infinity, query.shift);
    auto [first, limit] = shape.visible(k, query.i);
    auto sum =
        k.loop(first, limit, kKeyBlock, head.zero(),
               [&, limit = limit](Value from, ValueRange carried, SmallVectorImpl<Value> &next) {
                 Value to = k.min(k.add(from, k.index(kKeyBlock)), limit);
                 blockWeights(query, from, to);
                 next = k.loop(from, to, 1, carried,
                               [&](Value j, ValueRange row, SmallVectorImpl<Value> &out) {
                                 Value slot = k.sub(j, from), at = keyStart(query.kvStart, j);
                                 Value p = k.load(k.address(weights, slot, f32), f32);
                                 Value ds = k.load(k.address(slopes, slot, f32), f32);
                                 addTo(dV, at, p, query.dO);
                                 addTo(dK, at, ds, query.q);
                                 llvm::append_range(out, head.axpy(ds, head.load(key, at), row));
                               });
               });
    head.store(HeadRow::Row(sum.begin(), sum.end()), dQ, start);
  }

  void kvHead(Value r) {
    Value batch = k.divFloor(r, shape.kvHeads), kv = k.modulo(r, shape.kvHeads);
    Value kvStart = k.mul(k.add(k.mul(batch, shape.keys * shape.kvHeads), kv), shape.dim);
    k.loop(k.index(0), k.index(shape.keys), 1, [&](Value j) {
      head.store(head.zero(), dK, keyStart(kvStart, j));
      head.store(head.zero(), dV, keyStart(kvStart, j));
    });
    int64_t groupSize = shape.heads / shape.kvHeads;
    k.loop(k.index(0), k.index(groupSize), 1, [&](Value member) {
      Value h = k.add(k.mul(kv, groupSize), member);
      k.loop(k.index(0), k.index(shape.rows), 1, [&](Value i) {
        Value place = k.add(k.mul(k.add(k.mul(batch, shape.rows), i), shape.heads), h);
        queryRow({batch, h, i, place, kvStart, {}, {}, {}, {}});
      });
    });
  }
};

} // namespace

LogicalResult emitAttentionGrad(Kernel &k, LaunchBody body, Operation *op) {
  auto grad = cast<graph::AttentionGradOp>(op);
  AttentionShape shape(grad);
  auto in = [&](Value v) { return k.buffer(cast<BlockArgument>(v).getArgNumber()); };
  auto out = [&](unsigned i) { return k.buffer(body.reads + i); };
  Type f32 = k.b.getF32Type();
  GradKernel kernel{k,
                    shape,
                    HeadRow{k, shape.dim},
                    f32,
                    in(grad.getCotangent()),
                    in(grad.getQ()),
                    in(grad.getK()),
                    in(grad.getV()),
                    in(grad.getO()),
                    in(grad.getLse()),
                    out(0),
                    out(1),
                    out(2),
                    k.stackArray(f32, kKeyBlock),
                    k.stackArray(f32, kKeyBlock),
                    shape.softcap ? k.stackArray(f32, kKeyBlock) : Value()};
  k.rows = shape.batch * shape.kvHeads;
  k.loop(k.begin, k.end, 1, [&](Value r) { kernel.kvHead(r); });
  return success();
}

} // namespace llmc::emit
