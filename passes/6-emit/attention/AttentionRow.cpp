#include "passes/6-emit/attention/AttentionRow.h"

#include "passes/6-emit/attention/HeadRow.h"
#include "passes/6-emit/kernel/Dropout.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace llmc::emit {

namespace {

// Counts the keys of a block, whose scores lie on the stack.
constexpr int64_t kKeyBlock = 64;

// Holds row i of one head; its keys and values start at kvStart of their buffers.
struct Query {
  HeadRow::Row q;
  Value batch, head, i, kvStart;
};

struct AttentionKernel {
  Kernel &k;
  const AttentionShape &shape;
  HeadRow head;
  Value keys, values, scores;
  Type f32;

  Value score(Value j) { return k.address(scores, j, f32); }
  Value constant(double value) {
    return arith::ConstantOp::create(k.b, k.loc, k.b.getFloatAttr(f32, value));
  }
  Value nothing() { return constant(-std::numeric_limits<double>::infinity()); }
  Value isNothing(Value x) {
    return arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ, x, nothing());
  }
  Value splat(Value scalar) {
    return vector::BroadcastOp::create(k.b, k.loc, typeOf(f32, k.lanes()), scalar);
  }
  Value lanes(Value vector, vector::CombiningKind kind) {
    return vector::ReductionOp::create(k.b, k.loc, kind, vector, arith::FastMathFlags::reassoc);
  }
  void eachVector(const std::function<void(Value place)> &body) {
    for (int64_t at = 0; at < kKeyBlock; at += k.lanes())
      body(score(k.index(at)));
  }
  Value keyStart(const Query &query, Value j) {
    return k.add(query.kvStart, k.mul(j, shape.kvHeads * shape.dim));
  }

  void applyRules(const Query &query, Value from, Value to);

  // Returns the factor that dropout gives to the weight of key j.
  Value dropoutFactor(const Query &query, Value j) {
    return DropoutDraw{shape.dropout, shape.place, shape.drawn(k, 0, query.batch),
                       shape.drawn(k, 1, k.index(0)), shape.drawn(k, 2, query.i),
                       shape.drawnElement(k, query.head, j)}
        .factor({k.b, k.loc}, f32);
  }

  // Computes the scores of keys [from, to), -inf for the rest of the block, and returns their
  // maximum.
  Value blockScores(const Query &query, Value from, Value to) {
    Math m{k.b, k.loc};
    eachVector([&](Value place) { k.store(splat(nothing()), place); });
    k.loop(from, to, 1, [&](Value j) {
      k.store(head.dot(query.q, keys, keyStart(query, j)), score(k.sub(j, from)));
    });
    if (shape.mask || shape.softcap)
      applyRules(query, from, to);
    if (!shape.positions.empty())
      hideByPosition(query, from, to);
    Value largest = splat(nothing());
    eachVector([&](Value place) { largest = m.larger(k.load(place, f32, k.lanes()), largest); });
    return lanes(largest, vector::CombiningKind::MAXNUMF);
  }

  // Stores -inf where key j is after the last position that the query sees, or too far before it.
  void hideByPosition(const Query &query, Value from, Value to) {
    Math m{k.b, k.loc};
    Value last = shape.lastSeen(k, query.i);
    k.loop(from, to, 1, [&](Value j) {
      Value position = shape.positionOfKey(k, j), place = score(k.sub(j, from));
      Value seen = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sle, position, last);
      if (shape.window) {
        Value first = k.sub(last, k.index(shape.reach()));
        seen = arith::AndIOp::create(k.b, k.loc, seen,
                                     arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sgt, position, first));
      }
      k.store(m.select(seen, k.load(place, f32), nothing()), place);
    });
  }

  // Replaces each score by exp(score - shift) and returns the sum.
  Value blockPowers(Value shift) {
    Math m{k.b, k.loc};
    Value total, wide = splat(shift);
    eachVector([&](Value place) {
      Value p = m.exp(m.sub(k.load(place, f32, k.lanes()), wide));
      k.store(p, place);
      total = total ? m.add(total, p) : p;
    });
    return lanes(total, vector::CombiningKind::ADD);
  }

  // Adds keys [from, to) to the running maximum, sum and row of o.
  void addBlock(const Query &query, Value from, Value to, ValueRange carried,
                SmallVectorImpl<Value> &next) {
    Math m{k.b, k.loc};
    Value largest = m.larger(blockScores(query, from, to), carried[0]);
    // A query that has seen no key yet has powers of zero by any shift.
    Value shift = m.select(isNothing(largest), constant(0), largest);
    Value shrink = m.exp(m.sub(carried[0], shift));
    Value sum = m.fma(carried[1], shrink, blockPowers(shift));
    HeadRow::Row o = head.scale(HeadRow::Row(carried.drop_front(2)), shrink);
    auto added = k.loop(from, to, 1, o, [&](Value j, ValueRange row, SmallVectorImpl<Value> &out) {
      Value p = k.load(score(k.sub(j, from)), f32);
      if (shape.dropout > 0)
        p = m.mul(p, dropoutFactor(query, j));
      llvm::append_range(out, head.axpy(p, head.load(values, keyStart(query, j)), row));
    });
    next.append({largest, sum});
    llvm::append_range(next, added);
  }

  // Returns the row of o and its lse: 0 and -inf if it sees nothing.
  std::pair<HeadRow::Row, Value> run(const Query &query) {
    Math m{k.b, k.loc};
    auto [first, limit] = shape.visible(k, query.i);
    SmallVector<Value> init{nothing(), constant(0)};
    llvm::append_range(init, head.zero());
    auto state =
        k.loop(first, limit, kKeyBlock, init,
               [&, limit = limit](Value from, ValueRange carried, SmallVectorImpl<Value> &next) {
                 Value to = k.min(k.add(from, k.index(kKeyBlock)), limit);
                 addBlock(query, from, to, carried, next);
               });
    Value weight = m.select(isNothing(state[0]), constant(0), m.div(constant(1), state[1]));
    HeadRow::Row o = head.scale(HeadRow::Row(llvm::drop_begin(state, 2)), weight);
    return {o, m.add(state[0], m.log(state[1]))};
  }
};

} // namespace

// Applies softcap, then the mask.
void AttentionKernel::applyRules(const Query &query, Value from, Value to) {
  Math m{k.b, k.loc};
  Type element;
  Value mask, start;
  if (shape.mask) {
    element = getElementTypeOrSelf(shape.mask);
    mask = k.buffer(cast<BlockArgument>(shape.mask).getArgNumber());
    start = k.add(shape.maskStart(k, query.batch, query.head, query.i), from);
  }
  k.vectors(k.index(0), k.sub(to, from), std::nullopt, [&](Value j, unsigned width) {
    Value place = score(j), s = k.load(place, f32, width);
    if (shape.softcap) {
      Value t = m.tanh(m.mul(s, m.f(1 / shape.softcap, s)));
      s = m.mul(t, m.f(shape.softcap, s));
    }
    if (shape.mask) {
      Value bits = k.load(k.address(mask, k.add(start, j), element), element, width);
      s = isa<FloatType>(element)
              ? m.add(s, bits)
              : m.select(bits, s, m.f(-std::numeric_limits<double>::infinity(), s));
    }
    k.store(s, place);
  });
}

void emitAttentionRows(Kernel &k, LaunchBody body, graph::AttentionOp attention) {
  AttentionShape shape(attention);
  auto buffer = [&](Value v) { return k.buffer(cast<BlockArgument>(v).getArgNumber()); };
  Type f32 = k.b.getF32Type();
  Value queries = buffer(attention.getQ());
  AttentionKernel kernel{k,
                         shape,
                         HeadRow{k, shape.dim, shape.element},
                         buffer(attention.getK()),
                         buffer(attention.getV()),
                         k.stackArray(f32, kKeyBlock),
                         f32};
  Value o = k.buffer(body.reads), lse = k.buffer(body.reads + 1);
  Value scale = kernel.constant(shape.scale);
  k.rows = shape.batch * shape.heads;
  k.loop(k.begin, k.end, 1, [&](Value r) {
    Value batch = k.divFloor(r, shape.heads), head = k.modulo(r, shape.heads);
    Value kvHead = k.divFloor(head, shape.heads / shape.kvHeads);
    Value kvStart = k.mul(k.add(k.mul(batch, shape.keys * shape.kvHeads), kvHead), shape.dim);
    k.loop(k.index(0), k.index(shape.rows), 1, [&](Value i) {
      Value place = k.add(k.mul(k.add(k.mul(batch, shape.rows), i), shape.heads), head);
      Value start = k.mul(place, shape.dim);
      HeadRow::Row q = kernel.head.scale(kernel.head.load(queries, start), scale);
      auto [result, logSum] = kernel.run({q, batch, head, i, kvStart});
      kernel.head.store(result, o, start);
      k.store(logSum, k.address(lse, place, f32));
    });
  });
}

} // namespace llmc::emit
