// Reorders the instructions of a mixture of experts, so that exchanges of rows overlap with products.
#include "passes/5-schedule/Passes.h"

#include "dialects/graph/Equation.h"
#include "passes/5-schedule/Buffers.h"
#include "passes/5-schedule/Streams.h"
#include "llvm/ADT/BitVector.h"

namespace llmc {
#define GEN_PASS_DEF_OVERLAPEXCHANGES
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

RankedTensorType typeOf(Value buffer) { return cast<plan::BufferType>(buffer.getType()).getTensor(); }

bool isProduct(Operation *op) { return isa<plan::MatmulOp, plan::GroupedMatmulOp>(op); }

// Returns whether a collective moves rows of activations or gradients of experts; routes are integers.
bool isExchange(Operation *op) {
  auto collective = dyn_cast<plan::CollectiveOp>(op);
  return collective && collective.getKind() == plan::CollectiveKind::exchange_rows &&
         isa<FloatType>(typeOf(collective.getSrc()).getElementType());
}

// Returns whether the rows of `there` come back by `back`: the one sends as many as the other receives.
bool isPair(Operation *there, Operation *back) {
  auto counts = cast<plan::CollectiveOp>(there).getCounts(), returned = cast<plan::CollectiveOp>(back).getCounts();
  return counts.size() == 2 && returned.size() == 2 && counts[0] == returned[1] && counts[1] == returned[0];
}

// Returns whether an instruction may change places: its buffers say all that it depends on.
bool isMovable(Operation *op) {
  return isa<plan::LaunchOp, plan::MatmulOp, plan::GroupedMatmulOp, plan::CopyOp, plan::FillOp, plan::CollectiveOp>(op) &&
         op->getAttrOfType<IntegerAttr>("stream").getInt() == kCompute;
}

// Returns whether a collective reads what a step begins with: llmc-overlap-shards has given it its place.
bool isPrefetch(Operation *op) {
  auto collective = dyn_cast<plan::CollectiveOp>(op);
  return collective && rootOf(collective.getSrc()).first.getSpace() == plan::Space::persistent;
}

double multiplicationsOf(Operation *op) {
  auto shapeOf = [](Value buffer) { return typeOf(buffer).getShape(); };
  if (auto grouped = dyn_cast<plan::GroupedMatmulOp>(op)) {
    double count = 1;
    for (int64_t dim : shapeOf(grouped.getRoutes()))
      count *= dim;
    for (int64_t dim : shapeOf(grouped.isOuter() ? grouped.getOut() : grouped.getRhs()).take_back(2))
      count *= dim;
    return count;
  }
  auto matmul = dyn_cast<plan::MatmulOp>(op);
  std::optional<graph::Equation> equation;
  if (matmul)
    equation = graph::Equation::parse(matmul.getEquation());
  if (!equation)
    return 0;
  double count = 1;
  for (auto [letter, dim] : llvm::zip(equation->lhs, shapeOf(matmul.getLhs())))
    count *= dim;
  for (auto [letter, dim] : llvm::zip(equation->rhs, shapeOf(matmul.getRhs())))
    if (!llvm::is_contained(equation->lhs, letter))
      count *= dim;
  return count;
}

// Holds the instructions of a block around the two exchanges of a mixture, and which depends on which.
class Window {
public:
  Window(ArrayRef<Operation *> given, Operation *there, Operation *back) : ops(given) {
    first = llvm::find(ops, there) - ops.begin();
    second = llvm::find(ops, back) - ops.begin();
    for (Operation *op : ops)
      accesses.push_back(accessOf(op));
    for (size_t i = 0; i < ops.size(); ++i) {
      ancestors.emplace_back(ops.size());
      for (size_t before = 0; before < i; ++before)
        if (!ancestors[i].test(before) && dependsOn(i, before)) {
          ancestors[i] |= ancestors[before];
          ancestors[i].set(before);
        }
    }
    // Ends where the next part of the model begins, with the first product that needs all of the mixture.
    for (size_t i = second + 1; i < ops.size(); ++i)
      if (isProduct(ops[i]) && ancestors[i].test(second)) {
        ops.truncate(i);
        break;
      }
  }

  // Returns the number of products that overlap with an exchange, after moving them.
  unsigned reorder() {
    findIndependent();
    advanceCollectives();
    assignGroups();
    unsigned moved = 0;
    for (size_t i = 0; i < ops.size(); ++i)
      moved += isProduct(ops[i]) && (groups[i] == BesideFirst || groups[i] == BesideSecond);
    if (moved)
      emit();
    return moved;
  }

private:
  struct Bytes {
    Operation *root;
    int64_t low, high;
  };
  struct Access {
    SmallVector<Bytes> touched, written;
  };
  // Lists the parts of the new order.
  enum Group { Before, First, BesideFirst, Between, Second, BesideSecond, After };

  static Access accessOf(Operation *op) {
    auto bytesAt = [](Value buffer) {
      auto [root, low] = rootOf(buffer);
      return Bytes{root, low, low + bytesOf(buffer)};
    };
    return {llvm::map_to_vector(op->getOperands(), bytesAt), llvm::map_to_vector(writtenBy(*op), bytesAt)};
  }
  bool dependsOn(size_t later, size_t earlier) const {
    auto overlap = [](ArrayRef<Bytes> all, ArrayRef<Bytes> others) {
      return llvm::any_of(all, [&](const Bytes &a) {
        return llvm::any_of(others, [&](const Bytes &b) { return a.root == b.root && a.low < b.high && b.low < a.high; });
      });
    };
    return overlap(accesses[earlier].written, accesses[later].touched) ||
           overlap(accesses[earlier].touched, accesses[later].written);
  }
  bool follows(size_t i, size_t exchange) const { return i == exchange || ancestors[i].test(exchange); }

  // Finds what may run beside the first exchange: what neither feeds it nor depends on it. Of the instructions
  // before it only those are meant that the mixture needs, since more may stand there, of earlier layers.
  void findIndependent() {
    llvm::BitVector needed(ancestors.size());
    for (size_t i = first; i < ops.size(); ++i)
      if (follows(i, first))
        needed |= ancestors[i];
    independent.resize(ancestors.size());
    for (size_t i = 0; i < ops.size(); ++i)
      if (i < first ? !ancestors[first].test(i) && (needed.test(i) || ancestors[i].anyCommon(independent))
                    : !follows(i, first) && !isPrefetch(ops[i]))
        independent.set(i);
  }

  // Lets collectives that no independent product feeds, with what feeds them, be before the first exchange.
  void advanceCollectives() {
    llvm::BitVector early(ancestors.size());
    for (size_t i : independent.set_bits()) {
      if (!isa<plan::CollectiveOp>(ops[i]))
        continue;
      llvm::BitVector feeding = ancestors[i];
      feeding &= independent;
      if (llvm::any_of(feeding.set_bits(), [&](size_t other) { return isProduct(ops[other]); }))
        continue;
      early |= feeding;
      early.set(i);
    }
    independent.reset(early);
  }

  void assignGroups() {
    double all = 0, begun = 0;
    for (size_t i = 0; i < ops.size(); ++i)
      if (independent.test(i) || (follows(i, first) && !ancestors[second].test(i) && !follows(i, second)))
        all += multiplicationsOf(ops[i]);
    groups.assign(ops.size(), After);
    for (size_t i = 0; i < ops.size(); ++i) {
      if (i == first)
        groups[i] = First;
      else if (i == second)
        groups[i] = Second;
      else if (independent.test(i)) {
        groups[i] = begun < all / 2 || ancestors[second].test(i) ? BesideFirst : BesideSecond;
        begun += multiplicationsOf(ops[i]);
      } else if (!follows(i, first))
        groups[i] = i < first || !isPrefetch(ops[i]) ? Before : BesideSecond;
      else if (ancestors[second].test(i))
        groups[i] = Between;
      else if (!follows(i, second))
        groups[i] = BesideSecond;
    }
  }

  // Writes the window in the order of groups, each in its old order, but nothing before what it depends on.
  void emit() {
    Operation *place = ops.back()->getNextNode();
    Block *block = ops.front()->getBlock();
    llvm::BitVector done(ancestors.size());
    auto order = llvm::to_vector(llvm::seq<size_t>(0, ops.size()));
    llvm::stable_sort(order, [&](size_t a, size_t b) { return groups[a] < groups[b]; });
    auto isReady = [&](size_t i) { return !done.test(i) && !ancestors[i].test(done); };
    for (size_t count = 0; count < ops.size(); ++count) {
      size_t next = *llvm::find_if(order, isReady);
      done.set(next);
      place ? ops[next]->moveBefore(place) : ops[next]->moveBefore(block, block->end());
    }
  }

  SmallVector<Operation *> ops;
  size_t first, second;
  std::vector<Access> accesses;
  std::vector<llvm::BitVector> ancestors; // of each instruction, all of them in the window
  llvm::BitVector independent;
  std::vector<Group> groups;
};

unsigned overlapExchanges(Block &block) {
  unsigned moved = 0;
  SmallVector<Operation *> exchanges;
  for (Operation &op : block)
    if (isExchange(&op) && isMovable(&op))
      exchanges.push_back(&op);
  for (size_t i = 0; i + 1 < exchanges.size(); ++i) {
    if (!isPair(exchanges[i], exchanges[i + 1]))
      continue;
    auto isBorder = [&](Operation *op) {
      return !op || !isMovable(op) || (isExchange(op) && op != exchanges[i] && op != exchanges[i + 1]);
    };
    Operation *begin = exchanges[i];
    while (!isBorder(begin->getPrevNode()))
      begin = begin->getPrevNode();
    SmallVector<Operation *> ops;
    for (Operation *op = begin; !isBorder(op); op = op->getNextNode())
      ops.push_back(op);
    if (llvm::is_contained(ops, exchanges[i + 1]))
      moved += Window(ops, exchanges[i], exchanges[i + 1]).reorder();
    ++i; // Begins behind the pair.
  }
  return moved;
}

struct OverlapExchanges : impl::OverlapExchangesBase<OverlapExchanges> {
  void runOnOperation() override {
    for (auto stage : getOperation().getOps<plan::StageOp>())
      for (auto procedure : stage.getBody().getOps<plan::ProcedureOp>())
        numMoved += overlapExchanges(procedure.getBody().front());
  }
};

} // namespace
} // namespace llmc
