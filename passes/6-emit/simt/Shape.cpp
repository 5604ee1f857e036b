// Chooses how the threads of a block are arranged.
#include "passes/6-emit/simt/Steps.h"

using namespace mlir;

namespace llmc::emit {

bool containsElementLoop(scf::ForOp rows) {
  return rows
      .walk([](scf::ForOp loop) {
        return isLoopOfKind(loop, kElements) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

bool hasTerms(scf::ForOp elements) {
  return llvm::any_of(elements.getBody()->getOps<scf::ForOp>(),
                      [](scf::ForOp loop) { return isLoopOfKind(loop, kTerms); });
}

bool addsColumns(Operation *code) {
  return code
      ->walk([](scf::ForOp loop) {
        return isLoopOfKind(loop, kTerms) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

void addShortSumsInOrder(func::FuncOp kernel) {
  // Shares columns of more terms than this among threads: they take one of 32 each.
  constexpr int64_t kFewTerms = 16;
  kernel.walk([&](scf::ForOp loop) {
    auto trips = isLoopOfKind(loop, kTerms) ? tripCount(loop) : std::nullopt;
    if (!trips || *trips > kFewTerms)
      return;
    loop->removeAttr(kLoopKind);
    loop->removeAttr(kCombined);
  });
}

int64_t countSums(func::FuncOp kernel) {
  int64_t sums = 0;
  kernel.walk([&](Operation *op) { sums += op->hasAttr(kCombined); });
  return sums;
}

ThreadShape chooseShape(func::FuncOp kernel) {
  if (addsColumns(kernel))
    return {256, 256};
  int64_t longest = 0;
  bool isUnknown = false, isHeavy = false, areRows = false;
  for (Operation &op : kernel.getBody().front()) {
    bool isRows = isLoopOfKind(&op, kRows);
    areRows |= isRows && containsElementLoop(cast<scf::ForOp>(op));
    op.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
      if (!isLoopOfKind(loop, kElements))
        return WalkResult::advance();
      auto trips = tripCount(loop);
      longest = std::max(longest, trips.value_or(0));
      isUnknown |= isRows && !trips;
      isHeavy |= !isRows && !loop.getBody()->getOps<scf::ForOp>().empty();
      return WalkResult::skip();
    });
  }
  int64_t warps = llvm::divideCeil(longest, kWarp);
  if (isUnknown) { // many, for as much memory under way as registers allow
    int64_t threads = countSums(kernel) > 1 ? 256 : 512;
    return {threads, threads};
  }
  if (!areRows && isHeavy && warps == 0)
    return {64, 64}; // columns with a sum each: rather more blocks
  if (warps == 0)
    return {256, 256};
  if (warps > 1 || !areRows) {
    int64_t threads = std::min<int64_t>(warps, 8) * kWarp;
    return {threads, threads};
  }
  return {128, static_cast<int64_t>(llvm::PowerOf2Ceil(longest))};
}

} // namespace llmc::emit
