// Aligns the vectors of rows that are no whole number of vectors, or do not begin at a multiple
// of one: vectors begin where memory is aligned, and those that reach past an end of the row do
// nothing there. The test is test/passes/6-emit/map-to-threads-edges.mlir.
#include "passes/6-emit/simt/Steps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Dominance.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;

namespace llmc::emit {

namespace {

// Represents a sum of values times factors and a constant: an index modulo the width of a
// vector.
struct Remainder {
  SmallVector<std::pair<Value, int64_t>, 2> factors; // none is 0
  int64_t constant = 0;

  int64_t factorOf(Value value) const {
    auto *at = llvm::find_if(factors, [&](auto &entry) { return entry.first == value; });
    return at == factors.end() ? 0 : at->second;
  }
  bool operator==(const Remainder &other) const {
    return constant == other.constant && factors.size() == other.factors.size() &&
           llvm::all_of(factors,
                        [&](auto &entry) { return other.factorOf(entry.first) == entry.second; });
  }
};

// Adds `factor` * `value`; returns true if anything but constants is in it, be it a multiple or
// not.
bool addTo(Remainder &sum, Value value, int64_t factor, int64_t modulus) {
  if (auto number = constantOf(value)) {
    sum.constant = llvm::mod(sum.constant + factor * (*number % modulus), modulus);
    return false;
  }
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op)) {
    int64_t second = isa<arith::SubIOp>(op) ? -factor : factor;
    bool left = addTo(sum, op->getOperand(0), factor, modulus);
    return addTo(sum, op->getOperand(1), second, modulus) || left;
  }
  if (isa_and_nonnull<arith::MulIOp>(op))
    for (unsigned i : {0, 1})
      if (auto number = constantOf(op->getOperand(i)))
        return addTo(sum, op->getOperand(1 - i), factor * (*number % modulus), modulus);
  int64_t known = llvm::mod(sum.factorOf(value) + factor, modulus);
  llvm::erase_if(sum.factors, [&](auto &entry) { return entry.first == value; });
  if (known)
    sum.factors.push_back({value, known});
  return true;
}

// Returns whether `value` is `other` plus constants.
bool isOnly(Value value, Value other) {
  if (auto sum = value.getDefiningOp<arith::AddIOp>())
    return (constantOf(sum.getRhs()) && isOnly(sum.getLhs(), other)) ||
           (constantOf(sum.getLhs()) && isOnly(sum.getRhs(), other));
  return value == other;
}

// Describes an access to a vector of global memory whose elements follow the loop's.
struct Access {
  Operation *op;
  Remainder at; // of the loop's first element
  int64_t weight;
};

// Holds loops that keep elements for each other in arrays, or a single loop.
struct LinkedLoops {
  SmallVector<scf::ForOp> walks; // in order
  bool hasArrays = false;
};

class Edging {
public:
  Edging(func::FuncOp kernel, VectorBoundsMap &edges)
      : kernel(kernel), dominance(kernel), edges(edges) {}
  void run() {
    for (const LinkedLoops &family : linkedLoops())
      lay(family);
  }

private:
  func::FuncOp kernel;
  DominanceInfo dominance;
  VectorBoundsMap &edges;

  SmallVector<LinkedLoops> linkedLoops();
  void lay(const LinkedLoops &family);
  SmallVector<Access> accessesOf(scf::ForOp walk, Operation *before);
  Value shiftBefore(Operation *before, const Remainder &chosen, int64_t width);
  void shift(scf::ForOp walk, Value by, std::optional<int64_t> known);
};

} // namespace

// Returns whether `op` is a loop of a known length, not empty, in vectors.
static bool isVectorWalk(Operation *op) {
  auto walk = dyn_cast<scf::ForOp>(op);
  return walk && isLoopOfKind(walk, kElements) && !addsColumns(walk) && lengthOf(walk).value_or(0) > 0 &&
         constantOf(walk.getStep()) > 1;
}

SmallVector<LinkedLoops> Edging::linkedLoops() {
  llvm::EquivalenceClasses<Operation *> together;
  SmallVector<scf::ForOp> walks;
  llvm::SmallPtrSet<Operation *, 8> withArrays;
  kernel.walk<WalkOrder::PreOrder>([&](scf::ForOp walk) {
    if (!isVectorWalk(walk))
      return;
    walks.push_back(walk);
    together.insert(walk);
    walk.walk([&](LLVM::GEPOp gep) {
      if (auto array = gep.getBase().getDefiningOp<LLVM::AllocaOp>()) {
        together.unionSets(walk, array);
        withArrays.insert(walk);
      }
    });
  });
  llvm::MapVector<Operation *, LinkedLoops> byLeader;
  for (scf::ForOp walk : walks) {
    LinkedLoops &family = byLeader[together.getLeaderValue(walk)];
    family.walks.push_back(walk);
    family.hasArrays |= withArrays.contains(walk);
  }
  return llvm::to_vector(llvm::make_second_range(byLeader));
}

SmallVector<Access> Edging::accessesOf(scf::ForOp walk, Operation *before) {
  SmallVector<Access> accesses;
  int64_t width = *constantOf(walk.getStep());
  auto consider = [&](Operation *op, Value pointer, Type type, int64_t weight) {
    auto vector = dyn_cast<VectorType>(type);
    auto gep = pointer.getDefiningOp<LLVM::GEPOp>();
    if (!vector || vector.getNumElements() != width || !gep || gep.getDynamicIndices().size() != 1 ||
        isa_and_nonnull<LLVM::AllocaOp, LLVM::GEPOp>(gep.getBase().getDefiningOp()))
      return;
    Remainder at;
    Value index = gep.getDynamicIndices()[0], first = walk.getInductionVar();
    addTo(at, index, 1, width);
    if (at.factorOf(first) != 1)
      return;
    llvm::erase_if(at.factors, [&](auto &entry) { return entry.first == first; });
    addTo(at, walk.getLowerBound(), 1, width);
    for (auto [value, factor] : at.factors)
      if (!dominance.properlyDominates(value, before))
        return;
    // An operand that every row reads again comes from a cache, so its alignment weighs least.
    bool isSame = isOnly(index, first) && constantOf(walk.getLowerBound());
    accesses.push_back({op, at, isSame ? 1 : weight});
  };
  walk.walk([&](LLVM::LoadOp load) { consider(load, load.getAddr(), load.getType(), 2); });
  walk.walk([&](LLVM::StoreOp store) {
    consider(store, store.getAddr(), store.getValue().getType(), 3);
  });
  return accesses;
}

// Returns the elements from the last multiple of `width` in memory to the first of the row.
Value Edging::shiftBefore(Operation *before, const Remainder &chosen, int64_t width) {
  OpBuilder b(before);
  Location loc = before->getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  };
  Value sum = constant(chosen.constant);
  for (auto [value, factor] : chosen.factors) {
    Value term = value;
    if (factor != 1)
      term = arith::MulIOp::create(b, loc, term, constant(factor));
    sum = arith::AddIOp::create(b, loc, sum, term);
  }
  return arith::AndIOp::create(b, loc, sum, constant(width - 1));
}

// Begins `walk` by so many elements earlier; `known` is how many, where all rows have the same.
void Edging::shift(scf::ForOp walk, Value by, std::optional<int64_t> known) {
  int64_t width = *constantOf(walk.getStep()), size = *lengthOf(walk);
  OpBuilder b(walk);
  Location loc = walk.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  };
  Value low = walk.getLowerBound(), first = low;
  Value high = arith::AddIOp::create(b, loc, low, constant(size));
  if (known != 0)
    first = arith::SubIOp::create(b, loc, low, known ? constant(*known) : by);
  int64_t vectors = llvm::divideCeil(size + known.value_or(width - 1), width);
  walk.setLowerBound(first);
  walk.setUpperBound(arith::AddIOp::create(b, loc, first, constant(vectors * width)));
  if (auto cut = edges.find(walk); cut != edges.end()) { // ends earlier, perhaps
    cut->second.hasHead = known != 0;
    return;
  }
  edges[walk] = {low, high, /*hasHead=*/known != 0, /*surelyInside=*/size / width};
}

void Edging::lay(const LinkedLoops &family) {
  scf::ForOp front = family.walks.front();
  int64_t width = *constantOf(front.getStep()), size = *lengthOf(front);
  bool isAlike = llvm::all_of(family.walks, [&](scf::ForOp walk) {
    return walk->getBlock() == front->getBlock() && *lengthOf(walk) == size &&
           constantOf(walk.getStep()) == width && walk.getLowerBound() == front.getLowerBound();
  });
  SmallVector<Access> accesses;
  SmallVector<std::pair<Remainder, int64_t>> weights{{Remainder(), 0}};
  if (isAlike || !family.hasArrays)
    for (scf::ForOp walk : family.walks)
      for (Access &access : accessesOf(walk, front)) {
        auto *at = llvm::find_if(weights, [&](auto &entry) { return entry.first == access.at; });
        if (at == weights.end())
          weights.push_back({access.at, access.weight});
        else
          at->second += access.weight;
        accesses.push_back(std::move(access));
      }
  auto heavier = [](auto &a, auto &b) { return a.second < b.second; };
  const Remainder *best = &llvm::max_element(weights, heavier)->first;
  std::optional<int64_t> known;
  if (best->factors.empty())
    known = best->constant;
  for (Access &access : accesses) {
    auto align = [&](auto op, Type type) {
      int64_t bytes = width * llvm::divideCeil(getElementTypeOrSelf(type).getIntOrFloatBitWidth(), 8);
      op.setAlignment(std::min<int64_t>(bytes, kBufferAlignment));
    };
    if (!(access.at == *best))
      continue;
    if (auto load = dyn_cast<LLVM::LoadOp>(access.op))
      align(load, load.getType());
    else
      align(cast<LLVM::StoreOp>(access.op), cast<LLVM::StoreOp>(access.op).getValue().getType());
  }
  Value by = known ? Value() : shiftBefore(front, *best, width);
  for (scf::ForOp walk : family.walks)
    if (known != 0 || *lengthOf(walk) % width != 0)
      shift(walk, by, known);
}

void alignVectorLoops(func::FuncOp kernel, VectorBoundsMap &edges) { Edging(kernel, edges).run(); }

} // namespace llmc::emit
