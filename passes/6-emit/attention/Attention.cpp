// Emits the forward pass of attention: a panel of queries goes through its keys in blocks with
// running maxima and sums, so that no rows x keys matrix exists.
#include "passes/6-emit/attention/AttentionBlock.h"
#include "passes/6-emit/attention/AttentionRow.h"
#include "passes/6-emit/kernel/KernelEmitters.h"

#include <limits>

using namespace mlir;

namespace llmc::emit {

namespace {

// Bounds the queries from below: with fewer, most lanes would be empty.
constexpr int64_t kLeastRows = 8;
constexpr int64_t kKeyBlock = 96;
// Bounds the head size up to which a whole block of keys is widened on the stack.
constexpr int64_t kWidestHead = 256;
int64_t keyBlockOf(const AttentionShape &shape) {
  return isNarrow(shape.element) && shape.dim > kWidestHead ? kKeyBlock / 2 : kKeyBlock;
}
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct AttentionKernel {
  Kernel &k;
  const AttentionShape &shape;
  Value q, keys, values, o, lse;
  AttentionBlocks blocks;
  // Holds the columns of the result so far, the factor of each query (by which it shrinks, or
  // finally scales), and its lse.
  Value sums, factors, logSums;
  Value wideRows; // of a block of narrow keys, then of their values; or null
  using Panel = AttentionBlocks::Panel;

  AttentionKernel(Kernel &k, const AttentionShape &shape, LaunchBody body, graph::AttentionOp op)
      : k(k), shape(shape), blocks(k, shape, keyBlockOf(shape), /*wantsSlopes=*/false) {
    auto buffer = [&](Value v) { return k.buffer(cast<BlockArgument>(v).getArgNumber()); };
    q = buffer(op.getQ()), keys = buffer(op.getK()), values = buffer(op.getV());
    o = k.buffer(body.reads), lse = k.buffer(body.reads + 1);
    auto block = [&](int64_t count) {
      return k.stackArray(k.b.getF32Type(), count * blocks.width);
    };
    sums = block(shape.dim), factors = block(1), logSums = block(1);
    wideRows = blocks.wideRows(blocks.keyBlock);
  }

  Value isNothing(Value x) {
    return arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ, x,
                                 blocks.splat(-kInfinity));
  }

  // Returns the maxima of the scores of keys [from, to) and of those before.
  SmallVector<Value> maxima(Value from, Value to, ValueRange before) {
    Math m{k.b, k.loc};
    return k.loop(k.index(0), k.sub(to, from), 1, before,
                  [&](Value j, ValueRange carried, SmallVectorImpl<Value> &next) {
                    for (auto [v, old] : llvm::enumerate(carried))
                      next.push_back(m.larger(blocks.load(blocks.scores, j, v), old));
                  });
  }

  // Replaces each score by exp(score - shift) and returns the sums, which are those before dropout.
  SmallVector<Value> powers(const Panel &panel, Value from, Value to, ArrayRef<Value> shifts) {
    Math m{k.b, k.loc};
    SmallVector<Value> zeros(blocks.vectors, blocks.splat(0));
    return k.loop(k.index(0), k.sub(to, from), 1, zeros,
                  [&](Value j, ValueRange carried, SmallVectorImpl<Value> &next) {
                    for (auto [v, old] : llvm::enumerate(carried)) {
                      Value s = blocks.load(blocks.scores, j, v);
                      Value p = blocks.power(m.sub(s, shifts[v]));
                      next.push_back(m.add(old, p));
                      if (shape.dropout > 0)
                        p = m.mul(p, blocks.dropoutFactor(panel, k.add(from, j), v));
                      k.store(p, blocks.at(blocks.scores, j, v));
                    }
                  });
  }

  // Adds keys [from, to) to `sums` and to the running maxima and sums of powers.
  void addBlock(const Panel &panel, Value from, Value to, ValueRange carried,
                SmallVectorImpl<Value> &next) {
    Math m{k.b, k.loc};
    unsigned n = blocks.vectors;
    blocks.makeScores(blocks.floatKeys(keys, panel, from, to, wideRows), panel, from, to);
    auto largest = maxima(from, to, carried.take_front(n));
    SmallVector<Value> shifts, shrinks;
    for (unsigned v = 0; v < n; ++v) {
      // A query that has seen no key yet has powers of zero by any shift.
      shifts.push_back(m.select(isNothing(largest[v]), blocks.splat(0), largest[v]));
      shrinks.push_back(blocks.power(m.sub(carried[v], shifts[v])));
      k.store(shrinks[v], blocks.at(factors, k.index(0), v));
    }
    auto added = powers(panel, from, to, shifts);
    llvm::append_range(next, largest);
    for (unsigned v = 0; v < n; ++v)
      next.push_back(m.fma(carried[n + v], shrinks[v], added[v]));
    auto [base, stride] = blocks.floatKeys(values, panel, from, to, wideRows);
    BlockProduct{k}.emit({base, 1, stride}, {blocks.scores, blocks.width}, {sums, blocks.width},
                         k.index(shape.dim), k.sub(to, from), blocks.width,
                         BlockProduct::Start::Scaled, factors);
  }

  // Writes o and lse: 0 and -inf for a query that sees nothing.
  void finish(const Panel &panel, ArrayRef<Value> state) {
    Math m{k.b, k.loc};
    Type f32 = k.b.getF32Type();
    for (unsigned v = 0; v < blocks.vectors; ++v) {
      Value largest = state[v], sum = state[blocks.vectors + v];
      Value weight = m.select(isNothing(largest), blocks.splat(0), m.div(blocks.splat(1), sum));
      k.store(weight, blocks.at(factors, k.index(0), v));
      k.store(m.add(largest, m.log(sum)), blocks.at(logSums, k.index(0), v));
    }
    blocks.transpose(panel, sums, o).out(panel.rows, shape.dim, shape.element, factors);
    k.loop(k.index(0), panel.rows, 1, [&](Value r) {
      k.store(k.load(k.address(logSums, r, f32), f32),
              k.address(lse, blocks.placeOf(panel, r), f32));
    });
  }

  void run(const Panel &panel) {
    Math m{k.b, k.loc};
    BlockTranspose queries = blocks.transpose(panel, blocks.queries, q);
    queries.map = [&](Value x) { return m.mul(x, m.f(shape.scale, x)); };
    queries.in(blocks.width, k.index(shape.dim), shape.element);
    blocks.zero(sums, shape.dim);
    SmallVector<Value> init(blocks.vectors, blocks.splat(-kInfinity));
    init.append(blocks.vectors, blocks.splat(0));
    finish(panel, blocks.keyBlocks(
                      panel, k.index(0), k.index(shape.keys), init,
                      [&](Value from, Value to, ValueRange carried, SmallVectorImpl<Value> &next) {
                        addBlock(panel, from, to, carried, next);
                      }));
  }
};

} // namespace

LogicalResult emitAttention(Kernel &k, LaunchBody body, Operation *op) {
  auto attention = cast<graph::AttentionOp>(op);
  AttentionShape shape(attention);
  if (!shape.agrees({attention.getK(), attention.getV(), attention.getO()}, attention.getLse()))
    return op->emitOpError("has a kernel if q, k, v and o have one element type and lse is f32");
  if (shape.rows < kLeastRows) {
    emitAttentionRows(k, body, attention);
    return success();
  }
  AttentionKernel kernel(k, shape, body, attention);
  int64_t chunk = shape.chunk(), chunks = llvm::divideCeil(shape.rows, chunk);
  k.rows = shape.batch * shape.heads * chunks;
  k.loop(k.begin, k.end, 1, [&](Value r) {
    Value row = k.divFloor(r, chunks), from = k.mul(k.modulo(r, chunks), chunk);
    Value to = k.min(k.add(from, k.index(chunk)), k.index(shape.rows));
    kernel.blocks.panels(k.divFloor(row, shape.heads), k.modulo(row, shape.heads), from, to,
                         [&](const AttentionBlocks::Panel &panel) { kernel.run(panel); });
  });
  return success();
}

} // namespace llmc::emit
