#include "lib/predict/OverlappedExchanges.h"

#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/5-schedule/OverlapExchanges/ExchangeWindow.h"
#include "llvm/ADT/DenseMap.h"

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

// Returns whether a collective gathers what a step begins with, which has its place before.
bool isPrefetch(Operation *op) {
  return isa<parallel::AllGatherOp>(op) && !op->getOperand(0).getDefiningOp() && !isa<func::FuncOp>(op->getParentOp());
}

// Finds what each op needs of the others, also through ops that take no time.
std::vector<llvm::BitVector> ancestorsOf(ArrayRef<TimedOp> ops) {
  llvm::DenseMap<Operation *, size_t> numbers;
  for (auto [i, timed] : llvm::enumerate(ops))
    numbers[timed.op] = i;
  llvm::DenseMap<Operation *, llvm::BitVector> all;
  std::vector<llvm::BitVector> ancestors(ops.size(), llvm::BitVector(unsigned(ops.size())));
  for (Operation &op : *ops.front().op->getBlock()) {
    llvm::BitVector own(unsigned(ops.size()));
    for (Value operand : op.getOperands())
      if (Operation *from = operand.getDefiningOp(); from && from->getBlock() == op.getBlock()) {
        own |= all[from];
        if (auto number = numbers.find(from); number != numbers.end())
          own.set(unsigned(number->second));
      }
    if (auto number = numbers.find(&op); number != numbers.end())
      ancestors[number->second] = own;
    all[&op] = std::move(own);
  }
  return ancestors;
}

} // namespace

std::vector<size_t> predict::overlapExchanges(const std::vector<TimedOp> &ops) {
  std::vector<size_t> exchanges, order(ops.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i < ops.size(); ++i)
    if (exchangeOf(ops[i].op))
      exchanges.push_back(i);
  bool isMoved = false;
  for (size_t i = 0; i + 1 < exchanges.size(); ++i) {
    if (!isPair(exchangeOf(ops[exchanges[i]].op), exchangeOf(ops[exchanges[i + 1]].op)))
      continue;
    const size_t begin = i ? exchanges[i - 1] + 1 : 0, end = i + 2 < exchanges.size() ? exchanges[i + 2] : ops.size();
    ArrayRef<TimedOp> between = ArrayRef(ops).slice(begin, end - begin);
    std::vector<WindowItem> items;
    for (const TimedOp &timed : between)
      items.push_back({timed.multiplications > 0, isCollective(timed.op), isPrefetch(timed.op), timed.multiplications});
    std::vector<size_t> moved = ExchangeWindow(std::move(items), ancestorsOf(between), exchanges[i] - begin, exchanges[i + 1] - begin).order();
    for (size_t k = 0; k < moved.size(); ++k)
      order[begin + k] = begin + moved[k];
    isMoved = true;
    ++i;
  }
  return isMoved ? order : std::vector<size_t>();
}
