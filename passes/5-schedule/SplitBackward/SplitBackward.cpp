// Splits the backward of each stage into B and W.
#include "passes/5-schedule/Passes.h"

#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Annotations.h"
#include "mlir/IR/IRMapping.h"
#include "passes/5-schedule/StagePair.h"

namespace llmc {
#define GEN_PASS_DEF_SPLITBACKWARD
#include "passes/5-schedule/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::RepeatOp;

namespace {

Operation *returnOf(func::FuncOp func) { return func.getBody().front().getTerminator(); }

// Returns the repeat of whose body `value` is a carried argument; null if it is none.
RepeatOp carrierOf(Value value) {
  auto arg = dyn_cast<BlockArgument>(value);
  auto repeat = arg ? dyn_cast<RepeatOp>(arg.getOwner()->getParentOp()) : RepeatOp();
  return repeat && arg.getArgNumber() < repeat.getCarried().size() ? repeat : RepeatOp();
}

// Finds what B computes: everything that its roots need.
class BackwardSlice {
public:
  explicit BackwardSlice(func::FuncOp backward) : func(backward) {
    bool passesOn = false;
    for (OpOperand &use : returnOf(func)->getOpOperands())
      if (func.getResultAttr(use.getOperandNumber(), kStageBoundary)) {
        need(use.get());
        passesOn = true;
      }
    // Nobody waits for the first stage: its layers are divided like those of the others.
    for (auto repeat : func.getBody().front().getOps<RepeatOp>())
      for (Value carried : repeat.getCarriedResults())
        if (!passesOn)
          need(carried);
    while (!pending.empty())
      follow(pending.pop_back_val());
  }

  // Returns whether B makes the value or is sent it.
  bool has(Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    if (arg && arg.getOwner() == &func.getBody().front())
      return bool(func.getArgAttr(arg.getArgNumber(), kStageBoundary));
    return values.contains(value);
  }
  bool has(Operation *op) const { return ops.contains(op); }

private:
  void need(Value value) {
    if (values.insert(value).second)
      pending.push_back(value);
  }
  void follow(Value value) {
    if (RepeatOp repeat = carrierOf(value)) {
      unsigned i = cast<BlockArgument>(value).getArgNumber();
      need(repeat.getCarried()[i]);
      need(repeat.getBlock().getTerminator()->getOperand(i));
      need(repeat.getCarriedResults()[i]);
      return;
    }
    if (auto arg = dyn_cast<BlockArgument>(value)) {
      if (auto repeat = dyn_cast<RepeatOp>(arg.getOwner()->getParentOp()))
        need(repeat->getOperand(arg.getArgNumber()));
      return;
    }
    auto result = cast<OpResult>(value);
    if (auto repeat = dyn_cast<RepeatOp>(result.getOwner())) {
      unsigned i = result.getResultNumber();
      need(repeat.getBlock().getTerminator()->getOperand(i));
      if (i < repeat.getCarried().size())
        need(repeat.getBlock().getArgument(i));
      return;
    }
    ops.insert(result.getOwner());
    result.getOwner()->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        need(operand);
    });
  }

  func::FuncOp func;
  llvm::DenseSet<Value> values;
  llvm::DenseSet<Operation *> ops;
  SmallVector<Value> pending;
};

// Returns whether W makes the value of what it has: it only renames bytes, or depends on nothing.
bool isFree(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<RepeatOp>(op))
    return false;
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  return isPure(op) &&
         (op->getNumOperands() == 0 || (graphOp && op->getNumOperands() == 1 &&
                                        graphOp.getEmitClass() == graph::EmitClass::Alias));
}

class BackwardSplitter {
public:
  explicit BackwardSplitter(func::FuncOp backward) : backward(backward), slice(backward) {}

  // Returns the number of values that B keeps for W.
  int64_t run() {
    findKept();
    IRMapping map;
    weight = backward.clone(map);
    nameWeight();
    // A repeat is replaced when a value of its body is kept, so its results are kept before.
    SmallVector<Value> ordered = kept.takeVector();
    std::stable_partition(ordered.begin(), ordered.end(), [](Value value) {
      return !isa<RepeatOp>(value.getParentBlock()->getParentOp());
    });
    for (Value value : ordered)
      keep(value, map);
    dropResults(backward, isOfState);
    dropResults(weight, [](DictionaryAttr attrs) { return !isOfState(attrs); });
    clean(backward);
    clean(weight);
    return ordered.size();
  }

private:
  // Collects what W needs of B: operands of its ops, and of the renamings that it repeats.
  void findKept() {
    backward.walk([&](Operation *op) {
      if (slice.has(op) || isa<func::FuncOp, RepeatOp>(op))
        return;
      bool isReturn = op == returnOf(backward);
      auto repeat = isa<graph::YieldOp>(op) ? dyn_cast<RepeatOp>(op->getParentOp()) : RepeatOp();
      for (OpOperand &use : op->getOpOperands()) {
        unsigned i = use.getOperandNumber();
        // A yield is of W where W alone needs the result.
        if ((isReturn && !isOfState(backward.getResultAttrDict(i))) || (repeat && slice.has(repeat->getResult(i))))
          continue;
        need(use.get());
      }
    });
    // A repeat of W that carries values begins with some, and reads stacked and captured ones.
    for (auto repeat : backward.getBody().front().getOps<RepeatOp>())
      for (OpOperand &use : repeat->getOpOperands()) {
        unsigned i = use.getOperandNumber();
        if (i < repeat.getCarried().size() ? !slice.has(repeat->getResult(i))
                                           : isReadByWeight(repeat.getBlock().getArgument(i)))
          need(use.get());
      }
  }
  static bool isOfState(DictionaryAttr attrs) {
    return attrs && (attrs.get(kState) || attrs.get(kFlat));
  }
  // Returns whether an op of W, or a renaming that it repeats, reads an argument of a body.
  bool isReadByWeight(Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (isa<graph::YieldOp>(user))
        return true;
      return !slice.has(user) || (isFree(user->getResult(0)) && isReadByWeight(user->getResult(0)));
    });
  }
  void need(Value value) {
    if (!slice.has(value))
      return;
    auto arg = dyn_cast<BlockArgument>(value);
    // Keep outside what a body is given from there: W reads it there too.
    if (arg && isa<RepeatOp>(arg.getOwner()->getParentOp()) && !carrierOf(value))
      return;
    if (!isFree(value)) {
      kept.insert(value);
      return;
    }
    for (Value operand : value.getDefiningOp()->getOperands())
      need(operand);
  }

  void nameWeight() {
    auto *context = backward.getContext();
    weight.setSymName(("weight_" + Twine(getVirtualStage(backward))).str());
    weight->setAttr(kProcedure, StringAttr::get(context, "weight"));
    backward->getBlock()->getOperations().insertAfter(Block::iterator(backward), weight);
    for (unsigned i = 0; i < backward.getNumArguments(); ++i)
      if (auto id = backward.getArgAttrOfType<IntegerAttr>(i, kResidual))
        nextId = std::max(nextId, id.getInt() + 1);
  }

  // Makes a value a residual from B to W.
  void keep(Value value, IRMapping &map) {
    Value mine = value, theirs = map.lookup(value);
    auto *owner = value.getParentBlock();
    if (auto repeat = dyn_cast<RepeatOp>(owner->getParentOp())) {
      OpBuilder builder(repeat);
      auto theirRepeat = cast<RepeatOp>(theirs.getParentBlock()->getParentOp());
      mine = graph::addStackedResult(builder, repeat, value).second;
      BlockArgument arg = addArgument(mine.getType(), value.getLoc());
      unsigned index = theirRepeat.getCarried().size() + theirRepeat.getStacked().size();
      theirRepeat.getStackedMutable().append(Value(arg));
      theirs.replaceAllUsesWith(theirRepeat.getBlock().insertArgument(index, value.getType(), value.getLoc()));
    } else {
      theirs.replaceAllUsesWith(addArgument(value.getType(), value.getLoc()));
    }
    Operation *ret = returnOf(backward);
    ret->insertOperands(ret->getNumOperands(), mine);
    (void)backward.insertResult(backward.getNumResults(), mine.getType(), binding());
    ++nextId;
  }
  DictionaryAttr binding() {
    Builder b(backward.getContext());
    return b.getDictionaryAttr(b.getNamedAttr(kResidual, b.getI64IntegerAttr(nextId)));
  }
  BlockArgument addArgument(Type type, Location loc) {
    unsigned index = weight.getNumArguments();
    (void)weight.insertArgument(index, type, binding(), loc);
    return weight.getArgument(index);
  }

  static void dropResults(func::FuncOp func, llvm::function_ref<bool(DictionaryAttr)> isDropped) {
    llvm::BitVector gone(func.getNumResults());
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      gone[i] = isDropped(func.getResultAttrDict(i));
    returnOf(func)->eraseOperands(gone);
    (void)func.eraseResults(gone);
  }

  static void clean(func::FuncOp func) {
    cleanBlock(func.getBody().front());
    llvm::BitVector unused(func.getNumArguments());
    for (BlockArgument arg : func.getArguments())
      if (arg.use_empty())
        unused.set(arg.getArgNumber());
    (void)func.eraseArguments(unused);
  }

  func::FuncOp backward, weight;
  BackwardSlice slice;
  llvm::SetVector<Value> kept;
  int64_t nextId = 0;
};

struct SplitBackward : llmc::impl::SplitBackwardBase<SplitBackward> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      auto procedure = func->getAttrOfType<StringAttr>(kProcedure);
      if (procedure && procedure.getValue() == "weight") {
        func.emitError("the backward of the stages is split already");
        return signalPassFailure();
      }
    }
    for (auto [forward, backward] : functionPairs(getOperation()))
      if (!backward.isExternal())
        numKept += BackwardSplitter(backward).run();
  }
};

} // namespace
