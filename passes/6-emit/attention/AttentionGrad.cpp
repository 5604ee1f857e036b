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
// Bounds the bytes in which a unit sums dk and dv where these are narrow. A worker's stack has
// 2 MiB or more, of which the other blocks take less than 800 KiB up to a head size of 1024.
constexpr int64_t kMostSums = 1 << 20;

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
  // Holds rows of narrow tensors as float32, each null if they are float32 in memory: of a block
  // of k and v, of a panel of q and dO, and the sums of the unit's dk and dv.
  struct {
    Value keys, values, queries, cotangents, dK, dV;
  } wide;
  using Panel = AttentionBlocks::Panel;

  GradKernel(Kernel &k, const AttentionShape &shape, LaunchBody body, graph::AttentionGradOp op,
             int64_t keysOfUnit)
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
    wide.keys = blocks.wideRows(kKeyBlock), wide.values = blocks.wideRows(kKeyBlock);
    wide.queries = blocks.wideRows(blocks.width), wide.cotangents = blocks.wideRows(blocks.width);
    wide.dK = blocks.wideRows(keysOfUnit), wide.dV = blocks.wideRows(keysOfUnit);
  }

  // Reads the panel's queries, cotangents, lse and dO . o as columns.
  void prepare(const Panel &panel) {
    Math m{k.b, k.loc};
    Type f32 = k.b.getF32Type();
    BlockTranspose queries = blocks.transpose(panel, blocks.queries, q);
    queries.map = [&](Value x) { return m.mul(x, m.f(shape.scale, x)); };
    queries.in(blocks.width, k.index(shape.dim), shape.element);
    blocks.transpose(panel, dOColumns, dO).in(blocks.width, k.index(shape.dim), shape.element);
    HeadRow head{k, shape.dim, shape.element};
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
  // slope of softcap. Dropout multiplies dp first, and p where it weighs dO.
  void weights(const Panel &panel, Value from, Value to) {
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
        Value dp = blocks.load(dScores, j, v), kept = p;
        if (shape.dropout > 0) {
          Value factor = blocks.dropoutFactor(panel, k.add(from, j), v);
          dp = m.mul(dp, factor);
          kept = m.mul(p, factor);
        }
        Value ds = m.mul(m.mul(p, m.sub(dp, delta[v])), scale);
        if (blocks.slopes)
          ds = m.mul(ds, blocks.load(blocks.slopes, j, v));
        k.store(kept, blocks.at(blocks.scores, j, v));
        k.store(ds, blocks.at(dScores, j, v));
      }
    });
  }

  // Returns the panel's rows of `tensor` (q or dO) as float32, in `wideRows` if that is not null.
  BlockProduct::Rows queryRows(const Panel &panel, Value tensor, Value wideRows) {
    if (wideRows)
      return {wideRows, shape.dim};
    Value start = k.mul(blocks.place(panel, panel.i), shape.dim);
    return {k.address(tensor, start, shape.element), shape.queryStride()};
  }
  // Returns the rows from key `from` on of dk or dv, or of their sums `wideSums`, which begin at
  // key `low`.
  BlockProduct::Rows sumRows(const Panel &panel, Value from, Value low, Value out,
                             Value wideSums) {
    if (!wideSums)
      return blocks.keyRows(out, panel, from);
    Value start = k.mul(k.sub(from, low), shape.dim);
    return {k.address(wideSums, start, k.b.getF32Type()), shape.dim};
  }

  // Adds what the block's keys get from the panel to `sums`: `columns` are the weights of `rows`.
  void addToKeys(const Panel &panel, Value from, Value to, Value columns, BlockProduct::Rows rows,
                 BlockProduct::Rows sums) {
    BlockProduct{k}.emit({columns, blocks.width, 1}, rows, sums, k.sub(to, from), panel.rows,
                         shape.dim, BlockProduct::Start::Sum);
  }
  void addToKeys(const Panel &panel, Value from, Value to, Value low) {
    addToKeys(panel, from, to, blocks.scores, queryRows(panel, dO, wide.cotangents),
              sumRows(panel, from, low, dV, wide.dV));
    addToKeys(panel, from, to, dScores, queryRows(panel, q, wide.queries),
              sumRows(panel, from, low, dK, wide.dK));
  }

  // Computes a panel against keys [low, high).
  void run(const Panel &panel, Value low, Value high, Wanted wanted) {
    prepare(panel);
    if (wanted.dQ)
      blocks.zero(dQColumns, shape.dim);
    if (wanted.dKeys && wide.queries) {
      Value start = k.mul(blocks.place(panel, panel.i), shape.dim);
      blocks.widen(q, start, shape.queryStride(), panel.rows, wide.queries);
      blocks.widen(dO, start, shape.queryStride(), panel.rows, wide.cotangents);
    }
    blocks.keyBlocks(
        panel, low, high, {}, [&](Value from, Value to, ValueRange, SmallVectorImpl<Value> &) {
          BlockProduct::Rows keys = blocks.floatKeys(key, panel, from, to, wide.keys);
          blocks.makeScores(keys, panel, from, to);
          BlockProduct::Rows values = blocks.floatKeys(value, panel, from, to, wide.values);
          blocks.multiplyKeys(values, from, to, dOColumns, dScores);
          weights(panel, from, to);
          if (wanted.dKeys)
            addToKeys(panel, from, to, low);
          if (wanted.dQ)
            BlockProduct{k}.emit({keys.base, 1, keys.stride}, {dScores, blocks.width},
                                 {dQColumns, blocks.width}, k.index(shape.dim), k.sub(to, from),
                                 blocks.width, BlockProduct::Start::Sum);
        });
    if (wanted.dQ)
      blocks.transpose(panel, dQColumns, dQ).out(panel.rows, shape.dim, shape.element);
  }

  // Sets the sums of dk and dv of keys [low, high) to zero; `start` is the first element of the
  // kv head.
  void clearSums(Value start, Value low, Value high) {
    HeadRow head{k, shape.dim, k.b.getF32Type()};
    k.loop(low, high, 1, [&](Value j) {
      Value at = wide.dK ? k.mul(k.sub(j, low), shape.dim)
                         : k.add(start, k.mul(j, shape.keyStride()));
      head.store(head.zero(), wide.dK ? wide.dK : dK, at);
      head.store(head.zero(), wide.dV ? wide.dV : dV, at);
    });
  }
  // Rounds those sums to dk and dv, if these are narrow.
  void roundSums(Value start, Value low, Value high) {
    if (!wide.dK)
      return;
    HeadRow sums{k, shape.dim, k.b.getF32Type()}, head{k, shape.dim, shape.element};
    k.loop(low, high, 1, [&](Value j) {
      Value from = k.mul(k.sub(j, low), shape.dim);
      Value at = k.add(start, k.mul(j, shape.keyStride()));
      head.store(sums.load(wide.dK, from), dK, at);
      head.store(sums.load(wide.dV, from), dV, at);
    });
  }

  // Computes dk and dv of keys [low, high) of one kv head from all queries that see them.
  void keys(Value batch, Value kv, Value low, Value high, Wanted wanted) {
    Value start = k.mul(k.add(k.mul(batch, shape.keys * shape.kvHeads), kv), shape.dim);
    clearSums(start, low, high);
    Value first = k.index(0), last = k.index(shape.rows);
    if (shape.causal && shape.positions.empty() && !wanted.dQ)
      first = k.max(k.sub(low, k.index(shape.ahead())), first);
    if (shape.window && shape.positions.empty() && !wanted.dQ)
      last = k.min(k.sub(high, k.index(shape.behind())), last);
    int64_t groupSize = shape.heads / shape.kvHeads;
    k.loop(k.index(0), k.index(groupSize), 1, [&](Value member) {
      blocks.panels(batch, k.add(k.mul(kv, groupSize), member), first, last,
                    [&](const Panel &panel) { run(panel, low, high, wanted); });
    });
    roundSums(start, low, high);
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
  if (!shape.agrees({grad.getCotangent(), grad.getK(), grad.getV(), grad.getO(), grad.getDq(),
                     grad.getDk(), grad.getDv()},
                    grad.getLse()))
    return op->emitOpError("has a kernel if all tensors of q, k, v and o, and cotangents of them, "
                           "have one element type and lse is f32");
  int64_t sums = 2 * shape.keys * shape.dim * storageBytes(k.b.getF32Type());
  bool isWhole = shape.batch * shape.kvHeads >= kLeastUnits &&
                 (!isNarrow(shape.element) || sums <= kMostSums);
  GradKernel kernel(k, shape, body, grad, isWhole ? shape.keys : kKeysOfUnit);
  if (isWhole)
    emitWhole(kernel);
  else
    emitParts(kernel);
  return success();
}

} // namespace llmc::emit
