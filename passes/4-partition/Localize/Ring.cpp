// Unrolls the hops of a ring. Keys and values of the next hop are on their way while a rank attends to
// those of this one, and their cotangents follow them in float32 until they are home. Hops at which no
// row sees a key, for they are all outside of the window, are passed over.
#include "passes/4-partition/Localize/Ring.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Parallel.h"
#include "passes/4-partition/PlaceValues.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AttentionGradOp;
using graph::AttentionOp;
using graph::Build;

namespace {

class Ring {
public:
  Ring(OpBuilder &builder, Operation *op, ValueRange operands, StringAttr axis, MeshAttr mesh, Attribute origin)
      : b(builder, op->getLoc()), op(op), held(operands), axis(axis), origin(origin),
        mesh(mesh), ranks(mesh.getSize(axis.getValue())) {}

  SmallVector<Value> forward(AttentionOp attention) {
    findTravellers(1, 3, attention);
    Value o, lse;
    for (auto [i, hop] : llvm::enumerate(hops)) {
      SmallVector<Value> next = keysAfter(i);
      SmallVector<Value> part = attend({held[0].getType(), typeLike(held[0], attention.getLse())});
      Value block = b.cast(part[0], b.builder.getF32Type());
      std::tie(o, lse) = hop == 0 ? std::pair(block, part[1]) : merge({o, lse}, {block, part[1]});
      travelling = next;
    }
    return {b.cast(o, graph::elementOf(attention.getO())), lse};
  }

  SmallVector<Value> backward(AttentionGradOp grad) {
    findTravellers(2, 6, grad);
    SmallVector<Value> home, away; // cotangents of k and v: of the own keys, and of those that are here
    Value dq;
    for (auto [i, hop] : llvm::enumerate(hops)) {
      SmallVector<Value> next = keysAfter(i);
      if (i > 1)
        away = shifted(away, hop - hops[i - 1]);
      SmallVector<Value> part;
      for (Value result : attend({held[1].getType(), held[2].getType(), held[3].getType()}))
        part.push_back(b.cast(result, b.builder.getF32Type()));
      dq = i == 0 ? part[0] : b.add(dq, part[0]);
      if (i == 0)
        home = {part[1], part[2]};
      else if (i == 1)
        away = {part[1], part[2]};
      else
        away = {b.add(away[0], part[1]), b.add(away[1], part[2])};
      travelling = next;
    }
    if (!away.empty()) {
      away = shifted(away, ranks - hops.back());
      home = {b.add(home[0], away[0]), b.add(home[1], away[1])};
    }
    auto like = [&](Value value, Value primal) { return b.cast(value, graph::elementOf(primal)); };
    return {like(dq, held[1]), like(home[0], held[2]), like(home[1], held[3])};
  }

private:
  // Records which operands belong to keys: k and v, from operand `k` on, and of those from `further` on
  // the mask, if it differs between keys, and the places of keys.
  template <typename Op> void findTravellers(unsigned k, unsigned further, Op ring) {
    travellers = {k, k + 1};
    if (ring.hasMask() && graph::shapeOf(ring.getMask())[3] > 1)
      travellers.push_back(further);
    further += ring.hasMask();
    findHops(ring, further);
    if (!ring.getPositions().empty())
      travellers.push_back(further + 1);
    further += ring.getPositions().size();
    if (!ring.getDraws().empty())
      travellers.push_back(further + 4);
    for (unsigned i : travellers)
      travelling.push_back(held[i]);
  }

  // Records by how many ranks keys are from home when a row of any rank sees one of them; `places` is
  // the operand of the places of rows.
  template <typename Op> void findHops(Op ring, unsigned places) {
    std::optional<int64_t> window = ring.getWindow();
    PlaceValues values(mesh);
    auto isSeen = [&](int64_t hop) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const graph::Tensor *rows = values.of(held[places], rank);
        const graph::Tensor *keys = values.of(held[places + 1], (rank + ranks - hop) % ranks);
        if (!rows || !keys || countVisible(*rows, *keys, ring.getOffset(), window, /*any=*/true) > 0)
          return true;
      }
      return false;
    };
    hops = {0};
    for (int64_t hop = 1; hop < ranks; ++hop)
      if (!window || ring.getPositions().empty() || isSeen(hop)) // rows of any order see all without a window
        hops.push_back(hop);
  }

  // Sends what is here to the ranks that see it next, after the hop at `at`.
  SmallVector<Value> keysAfter(size_t at) {
    return at + 1 < hops.size() ? shifted(travelling, hops[at + 1] - hops[at]) : SmallVector<Value>();
  }

  // Sends values `distance` ranks on and returns those that arrive; equal values travel once.
  SmallVector<Value> shifted(ArrayRef<Value> values, int64_t distance) {
    llvm::SmallDenseMap<Value, Value> moved;
    SmallVector<Value> result;
    for (Value value : values) {
      Value &to = moved[value];
      if (!to) {
        auto shift = ShiftOp::create(b.builder, b.loc, value.getType(), value,
                                     b.builder.getArrayAttr(ArrayRef<Attribute>{axis}), distance);
        if (origin)
          shift->setAttr(kOrigin, origin);
        to = shift;
      }
      result.push_back(to);
    }
    return result;
  }

  // Attends to the keys that are here.
  SmallVector<Value> attend(TypeRange types) {
    SmallVector<Value> operands(held);
    for (auto [i, value] : llvm::zip(travellers, travelling))
      operands[i] = value;
    Operation *part = graph::cloneForTypes(b.builder, op, operands, SmallVector<Type>(types));
    for (NamedAttribute attribute : llvm::to_vector(part->getDiscardableAttrs()))
      part->removeDiscardableAttr(attribute.getName());
    part->removeAttr("ring");
    return SmallVector<Value>(part->getResults());
  }

  // Returns the type of the log-sum-exp of the rows of `q`.
  static Type typeLike(Value q, Value lse) {
    return RankedTensorType::get(graph::shapeOf(q).drop_back(), graph::elementOf(lse));
  }

  // Joins the results of the same rows over two sets of keys: softmax's sum is that of both, to which each
  // result counts by its share, 1 / (1 + e^(lse of the other - its own)). Forms no power above 1, whatever
  // the parts are.
  using Part = std::pair<Value, Value>; // o, lse
  Part merge(Part x, Part y) {
    Type type = x.second.getType();
    auto larger = [&](Value p, Value q) -> Value { return graph::MaximumOp::create(b.builder, b.loc, type, p, q); };
    auto shareOf = [&](Value difference) -> Value {
      return graph::SigmoidOp::create(b.builder, b.loc, type, difference);
    };
    auto scaled = [&](Value o, Value factor) {
      SmallVector<int64_t> shape(graph::shapeOf(factor));
      shape.push_back(1);
      return b.mul(o, b.broadcast(b.reshape(factor, shape), graph::shapeOf(o)));
    };
    Value most = larger(x.second, y.second);
    Value nothing = b.constantLike(-std::numeric_limits<double>::infinity(), most);
    Value isNothing = b.compare(most, nothing, graph::Predicate::eq);
    // Takes two infinities for equal: a row that sees no key has zeros in both parts.
    Value left = b.select(isNothing, b.constantLike(0, most), b.sub(x.second, y.second)), right = b.neg(left);
    Value rest = graph::SoftplusOp::create(b.builder, b.loc, type, b.neg(larger(left, right)));
    return {b.add(scaled(x.first, shareOf(left)), scaled(y.first, shareOf(right))),
            b.select(isNothing, nothing, b.add(most, rest))};
  }

  Build b;
  Operation *op;
  SmallVector<Value> held;
  StringAttr axis;
  Attribute origin;
  MeshAttr mesh;
  int64_t ranks;
  SmallVector<int64_t> hops;
  SmallVector<unsigned> travellers; // operands
  SmallVector<Value> travelling;    // what stands for them at this hop
};

} // namespace

SmallVector<Value> llmc::writeRing(OpBuilder &builder, Operation *op, ValueRange operands, StringAttr axis,
                                   MeshAttr mesh, Attribute origin) {
  Ring ring(builder, op, operands, axis, mesh, origin);
  if (auto attention = dyn_cast<AttentionOp>(op))
    return ring.forward(attention);
  return ring.backward(cast<AttentionGradOp>(op));
}
