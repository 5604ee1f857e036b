#include "lib/predict/MarkedRows.h"

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Annotations.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <set>

using namespace mlir;
using namespace llmc;

template <class Visit> static void forEachTensor(ModuleOp module, Visit visit) {
  auto each = [&](Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      visit(value, type);
  };
  module.walk([&](Operation *op) {
    llvm::for_each(op->getResults(), each);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), each);
  });
}

static bool isPrime(int64_t n) {
  for (int64_t i = 2; i * i <= n; ++i)
    if (n % i == 0)
      return false;
  return true;
}

std::optional<int64_t> predict::markRows(ModuleOp oneRow) {
  constexpr int64_t padding = 64, least = 1000, mostElements = int64_t(1) << 58; // bytes are counted in 64 bits
  std::set<int64_t> sizes;
  int64_t elements = 1;
  forEachTensor(oneRow, [&](Value, RankedTensorType type) {
    sizes.insert(type.getShape().begin(), type.getShape().end());
    elements = std::max(elements, type.getNumElements());
  });
  auto marks = [&](int64_t rows) {
    return isPrime(rows) && llvm::none_of(sizes, [&](int64_t size) { return size + padding >= rows && (size + padding) % rows <= padding; });
  };
  for (int64_t rows = std::min(mostElements / elements, int64_t(1) << 20); rows >= least; --rows)
    if (marks(rows))
      return rows;
  return std::nullopt;
}

static bool hasRows(Type type, int64_t marked) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && llvm::any_of(tensor.getShape(), [&](int64_t size) { return size > 0 && size % marked == 0; });
}

bool predict::marksNoState(ModuleOp module, int64_t marked) {
  for (auto state : module.getOps<graph::StateOp>())
    if (hasRows(state.getType(), marked))
      return false;
  for (auto func : module.getOps<func::FuncOp>())
    for (BlockArgument arg : func.getArguments())
      if (func.getArgAttr(arg.getArgNumber(), parallel::kFlat) && hasRows(arg.getType(), marked))
        return false;
  return true;
}

predict::MarkedRows::MarkedRows(ModuleOp module, int64_t marked) : marked_(marked) {
  forEachTensor(module, [&](Value value, RankedTensorType type) {
    if (hasRows(type, marked))
      values_.emplace_back(value, type);
  });
}

void predict::MarkedRows::set(int64_t rows) {
  for (auto &[value, type] : values_) {
    llvm::SmallVector<int64_t> shape(type.getShape());
    for (int64_t &size : shape)
      if (size > 0 && size % marked_ == 0)
        size = size / marked_ * rows;
    value.setType(type.clone(shape));
  }
}
