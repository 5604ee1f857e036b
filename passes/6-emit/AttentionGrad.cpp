// Attention, backward: probabilities again from lse, block by block. A part owns
// kv heads, so that sums into dk and dv have one writer and one order.
#include "passes/6-emit/Families.h"
#include "passes/6-emit/HeadRow.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace llmc::emit {

namespace {

struct GradKernel {
  Kernel &k;
  AttentionShape shape;
  HeadRow head;
  Type f32;
  Value dO, q, key, value, o, lse; // inputs
  Value dQ, dK, dV;                // outputs
  Value weights, slopes;           // p and ds of a block of keys

  Value splat(Value scalar) {
    return vector::BroadcastOp::create(k.b, k.loc, typeOf(f32, Kernel::kLanes), scalar);
  }
  Value constant(double number) {
    return arith::ConstantOp::create(k.b, k.loc, k.b.getFloatAttr(f32, number));
  }
  Value keyStart(Value kvStart, Value j) {
    return k.add(kvStart, k.mul(j, shape.kvHeads * shape.dim));
  }

  // p = exp(scale s - lse) and ds = scale p (dp - delta) of keys [from, to).
  void blockWeights(const HeadRow::Row &qRow, const HeadRow::Row &dRow, Value from, Value to,
                    Value kvStart, Value logSum, Value delta) {
    Math m{k.b, k.loc};
    Value nothing = splat(constant(-std::numeric_limits<double>::infinity()));
    Value zero = splat(constant(0));
    for (int64_t at = 0; at < kKeyBlock; at += Kernel::kLanes) {
      k.store(nothing, k.address(weights, k.index(at), f32));
      k.store(zero, k.address(slopes, k.index(at), f32));
    }
    k.loop(from, to, 1, [&](Value j) {
      Value slot = k.sub(j, from), start = keyStart(kvStart, j);
      k.store(head.dot(qRow, key, start), k.address(weights, slot, f32));
      k.store(head.dot(dRow, value, start), k.address(slopes, slot, f32));
    });
    for (int64_t at = 0; at < kKeyBlock; at += Kernel::kLanes) {
      Value weight = k.address(weights, k.index(at), f32);
      Value slope = k.address(slopes, k.index(at), f32);
      Value scale = splat(constant(shape.scale));
      Value s = m.mul(k.load(weight, f32, Kernel::kLanes), scale);
      Value p = m.exp(m.sub(s, splat(logSum)));
      Value dp = m.sub(k.load(slope, f32, Kernel::kLanes), splat(delta));
      k.store(p, weight);
      k.store(m.mul(m.mul(p, dp), scale), slope);
    }
  }

  void addTo(Value base, Value start, Value factor, const HeadRow::Row &row) {
    head.store(head.axpy(factor, row, head.load(base, start)), base, start);
  }

  // Query row at `place` (in rows of q) against the keys before `limit`.
  void queryRow(Value place, Value limit, Value kvStart) {
    Value start = k.mul(place, shape.dim);
    HeadRow::Row qRow = head.load(q, start), dRow = head.load(dO, start);
    Value delta = head.dot(dRow, o, start);
    Value logSum = k.load(k.address(lse, place, f32), f32);
    auto sum =
        k.loop(k.index(0), limit, kKeyBlock, head.zero(),
               [&](Value from, ValueRange carried, SmallVectorImpl<Value> &next) {
                 Value to = k.min(k.add(from, k.index(kKeyBlock)), limit);
                 blockWeights(qRow, dRow, from, to, kvStart, logSum, delta);
                 next = k.loop(from, to, 1, carried,
                               [&](Value j, ValueRange row, SmallVectorImpl<Value> &out) {
                                 Value slot = k.sub(j, from), at = keyStart(kvStart, j);
                                 Value ds = k.load(k.address(slopes, slot, f32), f32);
                                 addTo(dV, at, k.load(k.address(weights, slot, f32), f32), dRow);
                                 addTo(dK, at, ds, qRow);
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
        queryRow(place, shape.causal ? k.add(i, k.index(1)) : k.index(shape.keys), kvStart);
      });
    });
  }
};

} // namespace

LogicalResult emitAttentionGrad(Kernel &k, LaunchBody body, Operation *op) {
  auto grad = cast<graph::AttentionGradOp>(op);
  auto type = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  AttentionShape shape(type(grad.getQ()), type(grad.getK()), grad.getCausal(),
                       grad.getScale().convertToDouble());
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
                    k.stackArray(f32, kKeyBlock)};
  k.rows = shape.batch * shape.kvHeads;
  k.loop(k.begin, k.end, 1, [&](Value r) { kernel.kvHead(r); });
  return success();
}

} // namespace llmc::emit
