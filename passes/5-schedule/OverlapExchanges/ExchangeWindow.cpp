#include "passes/5-schedule/OverlapExchanges/ExchangeWindow.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace llmc;

ExchangeWindow::ExchangeWindow(std::vector<WindowItem> items, std::vector<llvm::BitVector> ancestors, size_t first, size_t second)
    : items_(std::move(items)), ancestors_(std::move(ancestors)), first_(first), second_(second) {
  for (size_t i = second_ + 1; i < items_.size(); ++i)
    if (items_[i].isProduct && ancestors_[i].test(unsigned(second_))) {
      items_.resize(i);
      break;
    }
  findIndependent();
  advanceCollectives();
  assignGroups();
}

// Finds what may run beside the first exchange: what neither feeds it nor depends on it. Of what stands before it that alone
// is meant which the mixture needs, since more may stand there, of earlier layers.
void ExchangeWindow::findIndependent() {
  llvm::BitVector needed(unsigned(ancestors_.size()));
  for (size_t i = first_; i < items_.size(); ++i)
    if (follows(i, first_))
      needed |= ancestors_[i];
  independent_.resize(unsigned(ancestors_.size()));
  for (size_t i = 0; i < items_.size(); ++i)
    if (i < first_ ? !ancestors_[first_].test(unsigned(i)) && (needed.test(unsigned(i)) || ancestors_[i].anyCommon(independent_))
                   : !follows(i, first_) && !items_[i].isPrefetch)
      independent_.set(unsigned(i));
}

// Lets collectives that no independent product feeds, with what feeds them, be before the first exchange.
void ExchangeWindow::advanceCollectives() {
  llvm::BitVector early(unsigned(ancestors_.size()));
  for (unsigned i : independent_.set_bits()) {
    if (!items_[i].isCollective)
      continue;
    llvm::BitVector feeding = ancestors_[i];
    feeding &= independent_;
    if (llvm::any_of(feeding.set_bits(), [&](unsigned other) { return items_[other].isProduct; }))
      continue;
    early |= feeding;
    early.set(i);
  }
  independent_.reset(early);
}

void ExchangeWindow::assignGroups() {
  double all = 0, begun = 0;
  auto feedsSecond = [&](size_t i) { return ancestors_[second_].test(unsigned(i)); };
  for (size_t i = 0; i < items_.size(); ++i)
    if (independent_.test(unsigned(i)) || (follows(i, first_) && !feedsSecond(i) && !follows(i, second_)))
      all += items_[i].multiplications;
  groups_.assign(items_.size(), After);
  for (size_t i = 0; i < items_.size(); ++i) {
    if (i == first_)
      groups_[i] = First;
    else if (i == second_)
      groups_[i] = Second;
    else if (independent_.test(unsigned(i))) {
      groups_[i] = begun < all / 2 || feedsSecond(i) ? BesideFirst : BesideSecond;
      begun += items_[i].multiplications;
    } else if (!follows(i, first_))
      groups_[i] = i < first_ || !items_[i].isPrefetch ? Before : BesideSecond;
    else if (feedsSecond(i))
      groups_[i] = Between;
    else if (!follows(i, second_))
      groups_[i] = BesideSecond;
  }
}

unsigned ExchangeWindow::overlapping() const {
  unsigned count = 0;
  for (size_t i = 0; i < items_.size(); ++i)
    count += items_[i].isProduct && (groups_[i] == BesideFirst || groups_[i] == BesideSecond);
  return count;
}

std::vector<size_t> ExchangeWindow::order() const {
  std::vector<size_t> sorted(items_.size()), order;
  std::iota(sorted.begin(), sorted.end(), 0);
  llvm::stable_sort(sorted, [&](size_t a, size_t b) { return groups_[a] < groups_[b]; });
  llvm::BitVector done(unsigned(ancestors_.size()));
  auto isReady = [&](size_t i) { return !done.test(unsigned(i)) && !ancestors_[i].test(done); };
  while (order.size() < items_.size()) {
    order.push_back(*llvm::find_if(sorted, isReady));
    done.set(unsigned(order.back()));
  }
  return order;
}
