// Reorders the instructions of a mixture of experts, so that exchanges of rows overlap with products.
#include "passes/5-schedule/Passes.h"

#include "dialects/graph/Equation.h"
#include "passes/5-schedule/Buffers.h"
#include "passes/5-schedule/OverlapExchanges/ExchangeWindow.h"
#include "passes/5-schedule/Streams.h"

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
  explicit Window(ArrayRef<Operation *> given) : ops(given) {
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
  }

  // Returns the number of products that overlap with an exchange, after moving them.
  unsigned reorder(Operation *there, Operation *back) {
    std::vector<WindowItem> items;
    for (Operation *op : ops)
      items.push_back({isProduct(op), isa<plan::CollectiveOp>(op), isPrefetch(op), multiplicationsOf(op)});
    ExchangeWindow window(std::move(items), std::move(ancestors), llvm::find(ops, there) - ops.begin(), llvm::find(ops, back) - ops.begin());
    if (unsigned moved = window.overlapping()) {
      std::vector<size_t> order = window.order();
      Block *block = ops.front()->getBlock();
      Operation *place = ops[order.size() - 1]->getNextNode();
      for (size_t next : order)
        place ? ops[next]->moveBefore(place) : ops[next]->moveBefore(block, block->end());
      return moved;
    }
    return 0;
  }

private:
  struct Bytes {
    Operation *root;
    int64_t low, high;
  };
  struct Access {
    SmallVector<Bytes> touched, written;
  };
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

  SmallVector<Operation *> ops;
  std::vector<Access> accesses;
  std::vector<llvm::BitVector> ancestors; // of each instruction, all of them in the window
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
      moved += Window(ops).reorder(exchanges[i], exchanges[i + 1]);
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
