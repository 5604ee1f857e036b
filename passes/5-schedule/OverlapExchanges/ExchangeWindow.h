// Orders what stands around the two exchanges of a mixture of experts, whatever it is: instructions of a plan, or ops that are
// priced. Tests: test/passes/5-schedule/overlap-exchanges.mlir, test/numerics/search.py.
#ifndef LLMC_PASSES_SCHEDULE_OVERLAPEXCHANGES_EXCHANGEWINDOW_H
#define LLMC_PASSES_SCHEDULE_OVERLAPEXCHANGES_EXCHANGEWINDOW_H

#include "llvm/ADT/BitVector.h"

#include <vector>

namespace llmc {

// Describes one thing in a window: whether it is a product, of how many multiplications, a collective, and one that gathers what
// a step begins with, which has its place.
struct WindowItem {
  bool isProduct = false, isCollective = false, isPrefetch = false;
  double multiplications = 0;
};

class ExchangeWindow {
public:
  // Takes the items in their order, the items before that each depends on, and the two exchanges.
  ExchangeWindow(std::vector<WindowItem> items, std::vector<llvm::BitVector> ancestors, size_t first, size_t second);

  // Returns the number of products that overlap with an exchange.
  unsigned overlapping() const;
  // Returns the numbers of the items by groups, each in its old order, but none before what it depends on. The window ends where
  // the next part of the model begins, with the first product that needs all of the mixture: what follows is left out.
  std::vector<size_t> order() const;

private:
  enum Group { Before, First, BesideFirst, Between, Second, BesideSecond, After };

  bool follows(size_t i, size_t exchange) const { return i == exchange || ancestors_[i].test(unsigned(exchange)); }
  void findIndependent();
  void advanceCollectives();
  void assignGroups();

  std::vector<WindowItem> items_;
  std::vector<llvm::BitVector> ancestors_; // of each item, all of them in the window
  const size_t first_, second_;
  llvm::BitVector independent_;
  std::vector<Group> groups_;
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_OVERLAPEXCHANGES_EXCHANGEWINDOW_H
