#include "lib/predict/OverlappedExchanges.h"

#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"
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

// Returns whether a collective gathers what a step begins with, which has its place before.
bool isPrefetch(Operation *op) {
  return isa<parallel::AllGatherOp>(op) && !op->getOperand(0).getDefiningOp() && !isa<func::FuncOp>(op->getParentOp());
}

// Holds the ops between two other exchanges, and orders them around a pair.
class Window {
public:
  Window(const std::vector<TimedOp> &ops, size_t begin, size_t end, size_t first, size_t second)
      : ops_(ops.begin() + std::ptrdiff_t(begin), ops.begin() + std::ptrdiff_t(end)), first_(first - begin), second_(second - begin) {
    findAncestors();
    // Ends where the next part of the model begins, with the first product that needs all of the mixture.
    for (size_t i = second_ + 1; i < ops_.size(); ++i)
      if (ops_[i].multiplications > 0 && ancestors_[i].test(second_)) {
        ops_.resize(i);
        break;
      }
  }

  std::vector<size_t> order() {
    findIndependent();
    advanceCollectives();
    assignGroups();
    std::vector<size_t> sorted(ops_.size()), order;
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return groups_[a] < groups_[b]; });
    llvm::BitVector done(ancestors_.size());
    auto isReady = [&](size_t i) { return !done.test(i) && !ancestors_[i].test(done); };
    while (order.size() < ops_.size()) {
      order.push_back(*std::find_if(sorted.begin(), sorted.end(), isReady));
      done.set(order.back());
    }
    return order;
  }

private:
  enum Group { Before, First, BesideFirst, Between, Second, BesideSecond, After };

  // Finds what each op needs of the others, also through ops that take no time.
  void findAncestors() {
    llvm::DenseMap<Operation *, size_t> numbers;
    for (size_t i = 0; i < ops_.size(); ++i)
      numbers[ops_[i].op] = i;
    llvm::DenseMap<Operation *, llvm::BitVector> all;
    ancestors_.assign(ops_.size(), llvm::BitVector(unsigned(ops_.size())));
    for (Operation &op : *ops_.front().op->getBlock()) {
      llvm::BitVector own(unsigned(ops_.size()));
      for (Value operand : op.getOperands())
        if (Operation *from = operand.getDefiningOp(); from && from->getBlock() == op.getBlock()) {
          own |= all[from];
          if (auto number = numbers.find(from); number != numbers.end())
            own.set(unsigned(number->second));
        }
      if (auto number = numbers.find(&op); number != numbers.end())
        ancestors_[number->second] = own;
      all[&op] = std::move(own);
    }
  }

  bool follows(size_t i, size_t exchange) const { return i == exchange || ancestors_[i].test(unsigned(exchange)); }

  // Finds what may run beside the first exchange: what neither feeds it nor depends on it, of what stands before it that alone
  // which the mixture needs.
  void findIndependent() {
    llvm::BitVector needed(unsigned(ancestors_.size()));
    for (size_t i = first_; i < ops_.size(); ++i)
      if (follows(i, first_))
        needed |= ancestors_[i];
    independent_.resize(unsigned(ancestors_.size()));
    for (size_t i = 0; i < ops_.size(); ++i)
      if (i < first_ ? !ancestors_[first_].test(unsigned(i)) && (needed.test(unsigned(i)) || ancestors_[i].anyCommon(independent_))
                     : !follows(i, first_) && !isPrefetch(ops_[i].op))
        independent_.set(unsigned(i));
  }

  // Lets collectives that no independent product feeds, with what feeds them, be before the first exchange.
  void advanceCollectives() {
    llvm::BitVector early(unsigned(ancestors_.size()));
    for (unsigned i : independent_.set_bits()) {
      if (!isCollective(ops_[i].op))
        continue;
      llvm::BitVector feeding = ancestors_[i];
      feeding &= independent_;
      if (llvm::any_of(feeding.set_bits(), [&](unsigned other) { return ops_[other].multiplications > 0; }))
        continue;
      early |= feeding;
      early.set(i);
    }
    independent_.reset(early);
  }

  void assignGroups() {
    double all = 0, begun = 0;
    auto feedsSecond = [&](size_t i) { return ancestors_[second_].test(unsigned(i)); };
    for (size_t i = 0; i < ops_.size(); ++i)
      if (independent_.test(unsigned(i)) || (follows(i, first_) && !feedsSecond(i) && !follows(i, second_)))
        all += ops_[i].multiplications;
    groups_.assign(ops_.size(), After);
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (i == first_)
        groups_[i] = First;
      else if (i == second_)
        groups_[i] = Second;
      else if (independent_.test(unsigned(i))) {
        groups_[i] = begun < all / 2 || feedsSecond(i) ? BesideFirst : BesideSecond;
        begun += ops_[i].multiplications;
      } else if (!follows(i, first_))
        groups_[i] = i < first_ || !isPrefetch(ops_[i].op) ? Before : BesideSecond;
      else if (feedsSecond(i))
        groups_[i] = Between;
      else if (!follows(i, second_))
        groups_[i] = BesideSecond;
    }
  }

  std::vector<TimedOp> ops_;
  size_t first_, second_;
  std::vector<llvm::BitVector> ancestors_; // of each op
  llvm::BitVector independent_;
  std::vector<Group> groups_;
};

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
    std::vector<size_t> moved = Window(ops, begin, end, exchanges[i], exchanges[i + 1]).order();
    for (size_t k = 0; k < moved.size(); ++k)
      order[begin + k] = begin + moved[k];
    isMoved = true;
    ++i;
  }
  return isMoved ? order : std::vector<size_t>();
}
