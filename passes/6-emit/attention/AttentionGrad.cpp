// Emits the backward pass of attention: recomputes probabilities from lse, block by block. Each
// sum into dq, dk and dv has one writer and one order.
#include "passes/6-emit/attention/AttentionBlock.h"
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/attention/HeadRow.h"

#include <limits>

using namespace mlir;

namespace llmc::emit {

namespace {

constexpr int64_t kKeyBlock = 48;
// Bounds the kv heads below which workers would be idle: units are then parts of a head, at the
// price of computing scores and their cotangents twice.
constexpr int64_t kLeastUnits = 4;
constexpr int64_t kKeysOfUnit = 2 * kKeyBlock;

// Selects what is computed from a panel and its keys.
struct Wanted {
  bool dQ, dKeys;
};

struct GradKernel {
  Kernel &k;
  const AttentionShape &shape;
  Value dO, q, key, value, o, lse; // inputs
  Value dQ, dK, dV;                // outputs
  AttentionBlocks blocks;
  // Holds columns of the panel's rows of dO and dQ, and of the cotangents of its scores.
  Value dOColumns, dQColumns, dScores;
  Value shifts, deltas; // of each query: the lse, and dO . o
  using Panel = AttentionBlocks::Panel;

  GradKernel(Kernel &k, const AttentionShape &shape, LaunchBody body, graph::AttentionGradOp op)
      : k(k), shape(shape), blocks(k, shape, kKeyBlock, /*wantsSlopes=*/true) {
    auto in = [&](Value v) { return k.buffer(cast<BlockArgument>(v).getArgNumber()); };
    auto out = [&](unsigned i) { return k.buffer(body.reads + i); };
    dO = in(op.getCotangent()), q = in(op.getQ()), key = in(op.getK()), value = in(op.getV());
    o = in(op.getO()), lse = in(op.getLse());
    dQ = out(0), dK = out(1), dV = out(2);
    auto block = [&](int64_t count) {
      return k.stackArray(k.b.getF32Type(), count * blocks.width);
    };
    dOColumns = block(shape.dim), dQColumns = block(shape.dim), dScores = block(kKeyBlock);
    shifts = block(1), deltas = block(1);
  }

  // Reads the panel's queries, cotangents, lse and dO . o as columns.
  void prepare(const Panel &panel) {
    Math m{k.b, k.loc};
    Type f32 = k.b.getF32Type();
    BlockTranspose queries = blocks.transpose(panel, blocks.queries, q);
    queries.map = [&](Value x) { return m.mul(x, m.f(shape.scale, x)); };
    queries.in(blocks.width, k.index(shape.dim), f32);
    blocks.transpose(panel, dOColumns, dO).in(blocks.width, k.index(shape.dim), f32);
    HeadRow head{k, shape.dim};
    k.loop(k.index(0), k.index(blocks.width), 1, [&](Value r) {
      Value place = blocks.placeOf(panel, r), start = k.mul(place, shape.dim);
      k.store(head.dot(head.load(dO, start), o, start), k.address(deltas, r, f32));
      // A query that sees nothing has an lse of -inf; a shift of +inf makes its weights zero.
      Value shift = k.load(k.address(lse, place, f32), f32);
      Value infinity = m.f(std::numeric_limits<double>::infinity(), shift);
      Value isNothing =
          arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ, shift, m.neg(infinity));
      k.store(m.select(isNothing, infinity, shift), k.address(shifts, r, f32));
    });
  }

  // Replaces the scores by p = exp(score - lse), and dp by ds = scale p (dp - delta), times the
  // slope of softcap.
  void weights(Value from, Value to) {
    Math m{k.b, k.loc};
    SmallVector<Value> shift, delta;
    for (unsigned v = 0; v < blocks.vectors; ++v) {
      shift.push_back(blocks.load(shifts, k.index(0), v));
      delta.push_back(blocks.load(deltas, k.index(0), v));
    }
    Value most = blocks.splat(88), scale = blocks.splat(shape.scale);
    k.loop(k.index(0), k.sub(to, from), 1, [&](Value j) {
      for (unsigned v = 0; v < blocks.vectors; ++v) {
        Value x = m.sub(blocks.load(blocks.scores, j, v), shift[v]);
        Value p = blocks.power(m.select(m.less(most, x), most, x));
        Value dp = m.sub(blocks.load(dScores, j, v), delta[v]);
        Value ds = m.mul(m.mul(p, dp), scale);
        if (blocks.slopes)
          ds = m.mul(ds, blocks.load(blocks.slopes, j, v));
        k.store(p, blocks.at(blocks.scores, j, v));
        k.store(ds, blocks.at(dScores, j, v));
      }
    });
  }

  // Adds what the block's keys get from the panel: `columns` are the weights of the rows of
  // `rows`.
  void addToKeys(const Panel &panel, Value from, Value to, Value columns, Value rows, Value out) {
    Value start = k.mul(blocks.place(panel, panel.i), shape.dim);
    BlockProduct{k}.emit({columns, blocks.width, 1},
                         {k.address(rows, start, k.b.getF32Type()), shape.queryStride()},
                         blocks.keyRows(out, panel, from), k.sub(to, from), panel.rows, shape.dim,
                         BlockProduct::Start::Sum);
  }

  // Computes a panel against keys [low, high).
  void run(const Panel &panel, Value low, Value high, Wanted wanted) {
    prepare(panel);
    if (wanted.dQ)
      blocks.zero(dQColumns, shape.dim);
    blocks.keyBlocks(
        panel, low, high, {}, [&](Value from, Value to, ValueRange, SmallVectorImpl<Value> &) {
          blocks.makeScores(key, panel, from, to);
          blocks.multiplyKeys(value, panel, from, to, dOColumns, dScores);
          weights(from, to);
          if (wanted.dKeys) {
            addToKeys(panel, from, to, blocks.scores, dO, dV);
            addToKeys(panel, from, to, dScores, q, dK);
          }
          if (wanted.dQ) {
            auto [base, stride] = blocks.keyRows(key, panel, from);
            BlockProduct{k}.emit({base, 1, stride}, {dScores, blocks.width},
                                 {dQColumns, blocks.width}, k.index(shape.dim), k.sub(to, from),
                                 blocks.width, BlockProduct::Start::Sum);
          }
        });
    if (wanted.dQ)
      blocks.transpose(panel, dQColumns, dQ).out(panel.rows, shape.dim);
  }

  // Computes dk and dv of keys [low, high) of one kv head from all queries that see them.
  void keys(Value batch, Value kv, Value low, Value high, Wanted wanted) {
    HeadRow head{k, shape.dim};
    Value start = k.mul(k.add(k.mul(batch, shape.keys * shape.kvHeads), kv), shape.dim);
    k.loop(low, high, 1, [&](Value j) {
      Value at = k.add(start, k.mul(j, shape.keyStride()));
      head.store(head.zero(), dK, at);
      head.store(head.zero(), dV, at);
    });
    Value first = k.index(0), last = k.index(shape.rows);
    if (shape.causal && !wanted.dQ)
      first = k.max(k.sub(low, k.index(shape.ahead())), first);
    if (shape.window && !wanted.dQ)
      last = k.min(k.sub(high, k.index(shape.behind())), last);
    int64_t groupSize = shape.heads / shape.kvHeads;
    k.loop(k.index(0), k.index(groupSize), 1, [&](Value member) {
      blocks.panels(batch, k.add(k.mul(kv, groupSize), member), first, last,
                    [&](const Panel &panel) { run(panel, low, high, wanted); });
    });
  }
};

// Emits rows that are kv heads: every product is computed once.
void emitWhole(GradKernel &kernel) {
  Kernel &k = kernel.k;
  const AttentionShape &shape = kernel.shape;
  k.rows = shape.batch * shape.kvHeads;
  k.loop(k.begin, k.end, 1, [&](Value r) {
    kernel.keys(k.divFloor(r, shape.kvHeads), k.modulo(r, shape.kvHeads), k.index(0),
                k.index(shape.keys), {/*dQ=*/true, /*dKeys=*/true});
  });
}

// Emits rows that are, for each batch, parts of the heads (dq) and then parts of the kv heads
// (dk, dv).
void emitParts(GradKernel &kernel) {
  Kernel &k = kernel.k;
  const AttentionShape &shape = kernel.shape;
  int64_t chunk = shape.chunk(), chunks = llvm::divideCeil(shape.rows, chunk);
  int64_t keyParts = llvm::divideCeil(shape.keys, kKeysOfUnit);
  int64_t first = shape.heads * chunks, units = first + shape.kvHeads * keyParts;
  k.rows = shape.batch * units;
  auto when = [&](arith::CmpIPredicate predicate, Value unit, const std::function<void()> &body) {
    k.ifThen(arith::CmpIOp::create(k.b, k.loc, predicate, unit, k.index(first)), body);
  };
  k.loop(k.begin, k.end, 1, [&](Value r) {
    Value batch = k.divFloor(r, units), unit = k.modulo(r, units);
    if (first)
      when(arith::CmpIPredicate::slt, unit, [&] {
        Value from = k.mul(k.modulo(unit, chunks), chunk);
        Value to = k.min(k.add(from, k.index(chunk)), k.index(shape.rows));
        kernel.blocks.panels(batch, k.divFloor(unit, chunks), from, to,
                             [&](const AttentionBlocks::Panel &panel) {
                               kernel.run(panel, k.index(0), k.index(shape.keys), {true, false});
                             });
      });
    if (keyParts)
      when(arith::CmpIPredicate::sge, unit, [&] {
        Value part = k.sub(unit, k.index(first));
        Value low = k.mul(k.modulo(part, keyParts), kKeysOfUnit);
        Value high = k.min(k.add(low, k.index(kKeysOfUnit)), k.index(shape.keys));
        kernel.keys(batch, k.divFloor(part, keyParts), low, high, {false, true});
      });
  });
}

} // namespace

LogicalResult emitAttentionGrad(Kernel &k, LaunchBody body, Operation *op) {
  auto grad = cast<graph::AttentionGradOp>(op);
  AttentionShape shape(grad);
  GradKernel kernel(k, shape, body, grad);
  if (shape.batch * shape.kvHeads >= kLeastUnits)
    emitWhole(kernel);
  else
    emitParts(kernel);
  return success();
}

} // namespace llmc::emit
