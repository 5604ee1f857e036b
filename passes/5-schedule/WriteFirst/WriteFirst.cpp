// Removes the zeroing of accumulators to which a step adds only once.
#include "passes/5-schedule/Passes.h"

#include "passes/5-schedule/Buffers.h"
#include "llvm/ADT/MapVector.h"

#include <map>

namespace llmc {
#define GEN_PASS_DEF_WRITEFIRST
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

// Represents bytes of a root that an instruction of the step names.
struct Access {
  Operation *op;
  bool once; // the op runs once a step
  int64_t low, high;
};

// Tracks the bytes that are still zero: disjoint [low, high) by low.
class Zeros {
public:
  Zeros(int64_t low, int64_t high) { ranges[low] = high; }
  bool empty() const { return ranges.empty(); }
  bool overlaps(int64_t low, int64_t high) const {
    auto it = ranges.lower_bound(high);
    return it != ranges.begin() && std::prev(it)->second > low;
  }
  // Removes [low, high) if all of it is zero, and returns whether it is.
  bool take(int64_t low, int64_t high) {
    auto it = ranges.upper_bound(low);
    if (it == ranges.begin() || (--it)->second < high)
      return false;
    auto [begin, end] = *it;
    ranges.erase(it);
    if (begin < low)
      ranges[begin] = low;
    if (high < end)
      ranges[high] = end;
    return true;
  }

private:
  std::map<int64_t, int64_t> ranges;
};

struct WriteFirst : impl::WriteFirstBase<WriteFirst> {
  void runOnOperation() override {
    for (auto stage : getOperation().getOps<plan::StageOp>())
      runOnStage(stage);
  }

  void runOnStage(plan::StageOp stage) {
    DenseMap<StringAttr, int64_t> runs;
    SmallVector<plan::ProcedureOp> order; // as the table first names them
    SmallVector<plan::FillOp> fills;
    SymbolTable procedures(stage);
    for (auto entry : stage.getTable().getAsRange<plan::EntryAttr>()) {
      auto procedure = procedures.lookup<plan::ProcedureOp>(entry.getProcedure().getAttr());
      if (procedure && runs[procedure.getSymNameAttr()]++ == 0)
        order.push_back(procedure);
    }
    // A procedure that runs again may precede a later one of this list, but it touches each byte
    // for the first time in its first run.
    llvm::DenseMap<Operation *, SmallVector<Access>> accesses; // by root
    for (plan::ProcedureOp procedure : order)
      for (Operation &op : procedure.getBody().front()) {
        if (auto fill = dyn_cast<plan::FillOp>(op);
            fill && procedure.getKind() == plan::ProcedureKind::begin)
          fills.push_back(fill);
        for (Value operand : op.getOperands()) {
          auto [root, low] = rootOf(operand);
          accesses[root].push_back(
              {&op, runs[procedure.getSymNameAttr()] == 1, low, low + bytesOf(operand)});
        }
      }
    for (plan::FillOp fill : fills)
      runOnFill(fill, accesses);
  }

  void runOnFill(plan::FillOp fill, llvm::DenseMap<Operation *, SmallVector<Access>> &accesses) {
    auto [root, low] = rootOf(fill.getDst());
    Zeros zeros(low, low + bytesOf(fill.getDst()));
    SmallVector<plan::MatmulOp> products;
    bool after = false;
    for (const Access &access : accesses[root]) {
      if (access.op == fill || !after) {
        after |= access.op == fill;
        continue;
      }
      if (!zeros.overlaps(access.low, access.high))
        continue;
      auto product = dyn_cast<plan::MatmulOp>(access.op);
      if (!product || !product.getAccumulate() || !access.once ||
          rootOf(product.getLhs()).first == root || rootOf(product.getRhs()).first == root ||
          !zeros.take(access.low, access.high))
        return;
      products.push_back(product);
    }
    if (!zeros.empty())
      return;
    for (plan::MatmulOp product : products)
      product.setAccumulate(false);
    numFills += 1;
    numProducts += products.size();
    llvm::erase_if(accesses[root], [&](const Access &access) { return access.op == fill; });
    fill.erase();
  }
};

} // namespace
} // namespace llmc
