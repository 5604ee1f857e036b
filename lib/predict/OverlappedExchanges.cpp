#include "lib/predict/OverlappedExchanges.h"

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/5-schedule/OverlapExchanges/ExchangeWindow.h"
#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace llmc;
using namespace llmc::predict;

namespace {

// Returns the exchange of rows of activations or gradients that an op is, null if it is none; routes are integers.
parallel::ExchangeRowsOp exchangeOf(Operation *op) {
  auto exchange = dyn_cast<parallel::ExchangeRowsOp>(op);
  return exchange && isa<FloatType>(cast<RankedTensorType>(exchange->getResult(0).getType()).getElementType()) ? exchange
                                                                                                              : parallel::ExchangeRowsOp();
}

// Returns whether the rows of one exchange come back by another: the one sends as many as the other receives.
bool isPair(parallel::ExchangeRowsOp there, parallel::ExchangeRowsOp back) {
  return there->getOperand(1) == back->getOperand(2) && there->getOperand(2) == back->getOperand(1);
}

bool isCollective(Operation *op) { return isa<parallel::CollectiveOpInterface>(op); }

// Returns whether a collective gathers what a step begins with, which has its place before: weights, not what a forward has kept.
bool isPrefetch(Operation *op) {
  auto origin = op->getAttrOfType<DictionaryAttr>(parallel::kOrigin);
  auto tactic = origin ? origin.getAs<StringAttr>("tactic") : StringAttr();
  return isa<parallel::AllGatherOp>(op) && !op->getOperand(0).getDefiningOp() && !isa<func::FuncOp>(op->getParentOp()) && tactic &&
         (tactic.getValue() == "data" || tactic.getValue() == "state");
}

// Finds what each op needs of the others, also through ops that take no time, in so many layers one after the other: the first
// arguments of a layer are what the one before it gives.
std::vector<llvm::BitVector> ancestorsOf(ArrayRef<TimedOp> ops, size_t layers) {
  const auto all = unsigned(layers * ops.size());
  llvm::DenseMap<Operation *, size_t> numbers;
  for (auto [i, timed] : llvm::enumerate(ops))
    numbers[timed.op] = i;
  Block &block = *ops.front().op->getBlock();
  std::vector<llvm::BitVector> ancestors;
  llvm::DenseMap<Operation *, llvm::BitVector> before, own; // of the layer before, and of this one
  for (size_t layer = 0; layer < layers; ++layer) {
    own.clear();
    auto needsOf = [&](Value value) -> llvm::BitVector {
      if (auto arg = dyn_cast<BlockArgument>(value)) {
        auto repeat = dyn_cast<graph::RepeatOp>(block.getParentOp());
        if (!layer || !repeat || arg.getOwner() != &block || arg.getArgNumber() >= repeat.getCarried().size())
          return llvm::BitVector(all);
        Operation *from = block.getTerminator()->getOperand(arg.getArgNumber()).getDefiningOp();
        auto given = from ? before.find(from) : before.end();
        return given == before.end() ? llvm::BitVector(all) : given->second;
      }
      auto given = own.find(value.getDefiningOp());
      return given == own.end() ? llvm::BitVector(all) : given->second;
    };
    ancestors.resize((layer + 1) * ops.size(), llvm::BitVector(all));
    for (Operation &op : block) {
      llvm::BitVector needed(all);
      for (Value operand : op.getOperands())
        needed |= needsOf(operand);
      if (auto number = numbers.find(&op); number != numbers.end()) {
        const size_t at = layer * ops.size() + number->second;
        ancestors[at] = needed;
        needed.set(unsigned(at));
      }
      own[&op] = std::move(needed);
    }
    std::swap(before, own);
  }
  return ancestors;
}

// Returns the ancestors of some ops among these.
std::vector<llvm::BitVector> ancestorsIn(ArrayRef<llvm::BitVector> ancestors, ArrayRef<size_t> window) {
  std::vector<unsigned> places(ancestors.size(), unsigned(window.size())); // in the window, behind it if it is elsewhere
  for (auto [place, i] : llvm::enumerate(window))
    places[i] = unsigned(place);
  std::vector<llvm::BitVector> cut;
  for (size_t i : window) {
    llvm::BitVector &own = cut.emplace_back(unsigned(window.size()));
    for (unsigned other : ancestors[i].set_bits())
      if (places[other] < window.size())
        own.set(places[other]);
  }
  return cut;
}

// Returns the order of the ops of so many layers. Empty: it stays.
std::vector<size_t> orderOf(ArrayRef<TimedOp> ops, size_t layers) {
  auto at = [&](size_t i) -> const TimedOp & { return ops[i % ops.size()]; };
  std::vector<size_t> exchanges, order(layers * ops.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i < order.size(); ++i)
    if (exchangeOf(at(i).op))
      exchanges.push_back(i);
  if (exchanges.size() < 2)
    return {};
  const std::vector<llvm::BitVector> ancestors = ancestorsOf(ops, layers);
  bool isMoved = false;
  for (size_t i = 0; i + 1 < exchanges.size(); ++i) {
    const size_t there = exchanges[i], back = exchanges[i + 1];
    if (there / ops.size() != back / ops.size() || !isPair(exchangeOf(at(there).op), exchangeOf(at(back).op)))
      continue;
    // Begins behind the exchange before them, and ends with the one behind.
    auto placeOf = [&](size_t op) { return llvm::find(order, op); };
    auto begin = i ? placeOf(exchanges[i - 1]) + 1 : order.begin(), end = i + 2 < exchanges.size() ? placeOf(exchanges[i + 2]) : order.end();
    const std::vector<size_t> window(begin, end);
    std::vector<WindowItem> items;
    for (size_t k : window)
      items.push_back({at(k).multiplications > 0, isCollective(at(k).op), isPrefetch(at(k).op), at(k).multiplications});
    ExchangeWindow moved(std::move(items), ancestorsIn(ancestors, window), size_t(placeOf(there) - begin), size_t(placeOf(back) - begin));
    ++i;
    if (!moved.overlapping())
      continue;
    for (size_t k : moved.order())
      *begin++ = window[k];
    isMoved = true;
  }
  return isMoved ? order : std::vector<size_t>();
}

} // namespace

std::vector<size_t> predict::overlapExchanges(const std::vector<TimedOp> &ops) { return orderOf(ops, 1); }

std::vector<size_t> predict::overlapLayers(const std::vector<TimedOp> &ops) {
  std::vector<size_t> order = orderOf(ops, 2);
  auto middle = order.begin() + std::ptrdiff_t(order.size() / 2);
  return std::any_of(order.begin(), middle, [&](size_t i) { return i >= ops.size(); }) ? order : std::vector<size_t>();
}
