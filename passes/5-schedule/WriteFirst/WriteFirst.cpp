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

// Represents bytes of a root: disjoint ranges [low, high) by low.
class ByteRanges {
public:
  ByteRanges(int64_t low, int64_t high) { ranges[low] = high; }
  auto begin() const { return ranges.begin(); }
  auto end() const { return ranges.end(); }
  size_t size() const { return ranges.size(); }
  bool covers(int64_t low, int64_t high) const {
    auto it = ranges.upper_bound(low);
    return it != ranges.begin() && std::prev(it)->second >= high;
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (auto [low, high] : ranges)
      sum += high - low;
    return sum;
  }
  void remove(int64_t low, int64_t high) {
    auto it = ranges.upper_bound(low);
    if (it != ranges.begin() && std::prev(it)->second > low)
      --it;
    while (it != ranges.end() && it->first < high) {
      auto [begin, end] = *it;
      it = ranges.erase(it);
      if (begin < low)
        ranges[begin] = low;
      if (high < end)
        ranges[high] = end;
    }
  }

private:
  std::map<int64_t, int64_t> ranges;
};

constexpr StringLiteral kAccumulate = "accumulate";

// Says how many bytes each fill more has to save: a launch takes as long as writing about as many.
constexpr int64_t kBytesOfLaunch = 64 << 10;

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

  // Returns whether the op is a product that is added to what is in `root`, and reads no more of it.
  static bool accumulatesAlone(Operation *op, plan::BufferOp root) {
    return isa<plan::MatmulOp, plan::GroupedMatmulOp>(op) && op->hasAttr(kAccumulate) &&
           llvm::none_of(op->getOperands().drop_back(),
                         [&](Value operand) { return rootOf(operand).first == root; });
  }

  void runOnFill(plan::FillOp fill, llvm::DenseMap<Operation *, SmallVector<Access>> &accesses) {
    auto [root, low] = rootOf(fill.getDst());
    int64_t high = low + bytesOf(fill.getDst());
    // Tracks the bytes that no instruction has touched so far, and those that have to be zeroed.
    ByteRanges untouched(low, high), needed(low, high);
    SmallVector<Operation *> products;
    bool after = false;
    for (const Access &access : accesses[root]) {
      if (access.op == fill || !after) {
        after |= access.op == fill;
        continue;
      }
      if (accumulatesAlone(access.op, root) && access.once && untouched.covers(access.low, access.high)) {
        needed.remove(access.low, access.high);
        products.push_back(access.op);
      }
      untouched.remove(access.low, access.high);
    }
    int64_t saved = high - low - needed.bytes();
    if (products.empty() || saved < kBytesOfLaunch * (int64_t(needed.size()) - 1))
      return;
    for (Operation *product : products)
      product->removeAttr(kAccumulate);
    numFills += needed.size() == 0;
    numProducts += products.size();
    for (auto [begin, end] : needed)
      zero(fill, begin - low, end - begin);
    llvm::erase_if(accesses[root], [&](const Access &access) { return access.op == fill; });
    fill.erase();
  }

  // Zeroes `bytes` of what `fill` zeroes.
  void zero(plan::FillOp fill, int64_t begin, int64_t bytes) {
    auto whole = fill.getDst().getDefiningOp<plan::BufferOp>();
    OpBuilder builder(whole->getContext());
    builder.setInsertionPointAfter(whole);
    Type element = cast<plan::BufferType>(whole.getType()).getTensor().getElementType();
    Value part = plan::BufferOp::create(
        builder, whole.getLoc(), vectorOf(element, bytes), whole, whole.getSpaceAttr(),
        builder.getI64IntegerAttr(begin), IntegerAttr(), IntegerAttr(), Attribute(), IntegerAttr());
    builder.setInsertionPoint(fill);
    plan::FillOp::create(builder, fill.getLoc(), part, fill.getStreamAttr(), fill.getOriginAttr());
  }
};

} // namespace
} // namespace llmc
