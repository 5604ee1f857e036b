// Lets backward compute again what forward would have to keep. ChooseKept.h decides, StagePair.h
// changes what is kept; this file clones what is computed again.
#include "passes/5-schedule/Passes.h"

#include "dialects/graph/Build.h"
#include "mlir/IR/IRMapping.h"
#include "passes/5-schedule/Recompute/ChooseKept.h"
#include "passes/5-schedule/Recompute/StagePair.h"

namespace llmc {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

bool isCollective(Operation *op) {
  return isa<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp>(op);
}

// Returns whether `selective` may run the op again: neither a product with a weight (of which one
// operand is fixed), nor fused attention, nor anything that other ranks take part in.
bool isCheap(Operation *op, const llvm::DenseSet<Value> &fixed) {
  if (op->getNumRegions() || isCollective(op) || isa<graph::AttentionOp>(op))
    return false;
  return !isa<graph::MatmulOp>(op) ||
         llvm::none_of(op->getOperands(), [&](Value v) { return fixed.contains(v); });
}

// Computes values of a forward block again in its backward block, each before its first reader.
class Redo {
public:
  Redo(StagePair &stage, BlockPair &pair, const llvm::SetVector<Value> &kept)
      : stage(stage), pair(pair), kept(kept) {}

  // Describes a value that is computed again: the ops that this took, beside those of others. Or one
  // that is kept and was not before.
  struct Result {
    Value value;
    bool isKept = false;
    double flops = 0;
    SmallVector<Operation *> ops;
  };

  SmallVector<Result> run() {
    llvm::DenseMap<Value, Value> gone; // an argument that holds what is not kept any more
    for (auto &[value, args] : pair.kept)
      if (!kept.contains(value))
        for (BlockArgument arg : args)
          gone[arg] = value;
    for (Value value : kept) {
      if (!pair.kept.count(value))
        results.push_back({value, /*isKept=*/true});
      available[value] = stage.keep(pair, value);
    }
    for (Operation &reader : llvm::make_early_inc_range(*pair.backward))
      for (OpOperand &use : reader.getOpOperands())
        if (auto it = gone.find(use.get()); it != gone.end())
          use.set(get(it->second, &reader));
    mergeClones();
    return results;
  }

private:
  // Returns whether the value was kept and is not any more.
  bool isDropped(Value value) const { return pair.kept.count(value) && !kept.contains(value); }

  // Returns the value in the backward block; makes it before `reader` if it is not there.
  Value get(Value value, Operation *reader) {
    if (Value known = available.lookup(value))
      return known;
    Result outer = std::exchange(current, {value});
    if (auto arg = dyn_cast<BlockArgument>(value))
      available[value] = stage.import(pair, arg);
    else
      redo(value.getDefiningOp(), reader);
    if (isDropped(value)) {
      results.push_back(std::exchange(current, outer));
    } else {
      outer.flops += current.flops;
      outer.ops.append(current.ops);
      current = outer;
    }
    return available[value];
  }

  void redo(Operation *op, Operation *reader) {
    IRMapping map;
    for (Value operand : op->getOperands())
      map.map(operand, get(operand, reader));
    OpBuilder builder(reader);
    Operation *clone = builder.clone(*op, map);
    clones.insert(clone);
    if (isCollective(clone))
      markAgain(clone, true);
    if (auto compute = dyn_cast<graph::GraphOpInterface>(op))
      current.flops += compute.getFlops();
    current.ops.push_back(op);
    for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults())) {
      available[from] = to;
      if (from != current.value && isDropped(from)) // it comes along
        results.push_back({from});
    }
  }

  // Returns whether two ops compute the same, wherever they come from.
  static bool sameOp(Operation *a, Operation *b) {
    auto attrsOf = [](Operation *op) {
      NamedAttrList attrs(op->getAttrDictionary());
      attrs.erase(kOrigin);
      attrs.erase(kBackward);
      return attrs.getDictionary(op->getContext());
    };
    return a->getName() == b->getName() && a->getOperands() == b->getOperands() &&
           a->getResultTypes() == b->getResultTypes() && attrsOf(a) == attrsOf(b);
  }

  // Marks a collective, for reports, as one of the forward that the backward makes again.
  static void markAgain(Operation *collective, bool again) {
    auto origin = collective->getAttrOfType<DictionaryAttr>(kOrigin);
    if (!origin)
      return;
    NamedAttrList fields(origin);
    if (again)
      fields.set("recomputed", UnitAttr::get(collective->getContext()));
    else
      fields.erase("recomputed");
    collective->setAttr(kOrigin, fields.getDictionary(collective->getContext()));
  }

  // Replaces an op of the backward that does what a clone does, or a clone that does what an op
  // before it did: gathers of a sequence or of weights above all.
  void mergeClones() {
    llvm::DenseMap<Value, SmallVector<Operation *>> readers; // by first operand
    for (Operation &op : llvm::make_early_inc_range(*pair.backward)) {
      if (op.getNumOperands() == 0 || op.getNumRegions() || op.getNumResults() == 0)
        continue;
      SmallVector<Operation *> &others = readers[op.getOperand(0)];
      auto same = llvm::find_if(others, [&](Operation *other) {
        return (clones.contains(&op) || clones.contains(other)) && sameOp(&op, other);
      });
      if (same == others.end()) {
        others.push_back(&op);
        continue;
      }
      // The backward makes the call of its own accord, too.
      if (isCollective(&op) && (!clones.contains(&op) || !clones.contains(*same)))
        markAgain(*same, false);
      clones.insert(*same);
      op.replaceAllUsesWith(*same);
      clones.erase(&op);
      op.erase();
    }
  }

  StagePair &stage;
  BlockPair &pair;
  const llvm::SetVector<Value> &kept;
  llvm::DenseMap<Value, Value> available;
  llvm::DenseSet<Operation *> clones;
  SmallVector<Result> results;
  Result current;
};

struct Recompute : impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!llvm::is_contained({"none", "selective", "full"}, StringRef(mode))) {
      module.emitError("unknown mode of recomputation '")
          << mode << "'; known are none, selective and full";
      return signalPassFailure();
    }
    if (mode == "none" || isInference(module))
      return;
    for (auto func : module.getOps<func::FuncOp>())
      if (procedureOf(func) == "forward")
        if (func::FuncOp backward = backwardOf(module, func))
          run(func, backward);
    if (mode == "full" && !hasLayers)
      module.emitRemark("--recompute full computes layers again from their inputs, and no layers are "
                        "folded here: it does what selective does");
    module->setAttr("plan.recomputed", ArrayAttr::get(&getContext(), notes));
  }

  static StringRef procedureOf(func::FuncOp func) {
    auto name = func->getAttrOfType<StringAttr>(kProcedure);
    return name ? name.getValue() : StringRef();
  }

  static func::FuncOp backwardOf(ModuleOp module, func::FuncOp forward) {
    for (auto func : module.getOps<func::FuncOp>())
      if (procedureOf(func) == "backward" && func->getAttr(kStage) == forward->getAttr(kStage) &&
          func->getAttr(kChunk) == forward->getAttr(kChunk))
        return func;
    return {};
  }

  void run(func::FuncOp forward, func::FuncOp backward) {
    StagePair stage(forward, backward);
    for (size_t i = 0, count = stage.pairs().size(); i < count; ++i) {
      BlockPair pair = stage.pairs()[i];
      SmallVector<Value> needed;
      for (auto &[value, args] : pair.kept)
        needed.push_back(value);
      bool all = mode == "full" && pair.forwardRepeat;
      hasLayers |= bool(pair.forwardRepeat);
      auto sourceOf = [&](BlockArgument arg) { return stage.sourceOf(pair, arg); };
      auto mayRedo = [&](Operation *op, const llvm::DenseSet<Value> &fixed) {
        return all ? op->getNumRegions() == 0 : isCheap(op, fixed);
      };
      llvm::SetVector<Value> kept = chooseKept({pair.forward, needed, sourceOf, mayRedo});
      for (const Redo::Result &redone : Redo(stage, pair, kept).run())
        note(forward, pair, redone);
    }
    stage.clean();
  }

  // Returns the name of a node; with a star in place of the layer if layers share it.
  static std::string nameOf(Value value) {
    SmallVector<StringAttr> names = getNodeNames(value.getLoc());
    if (names.empty())
      return "";
    StringRef first = names.front(), last = names.back();
    size_t same = 0, most = std::min(first.size(), last.size());
    while (same < most && first[same] == last[same])
      ++same;
    size_t end = 0;
    while (end < most - same && first[first.size() - 1 - end] == last[last.size() - 1 - end])
      ++end;
    return same == first.size() ? first.str() : (first.take_front(same) + "*" + first.take_back(end)).str();
  }

  // Lists one value that is computed again, or kept for that, for people.
  void note(func::FuncOp forward, const BlockPair &pair, const Redo::Result &redone) {
    numRedone += !redone.isKept;
    Builder b(&getContext());
    Operation *op = redone.value.getDefiningOp();
    SmallVector<Attribute> ops;
    for (Operation *one : redone.ops)
      ops.push_back(b.getStringAttr(one->getName().getStringRef()));
    SmallVector<NamedAttribute> entries = {
         b.getNamedAttr("stage", forward->getAttr(kStage)),
         b.getNamedAttr("layers", b.getI64IntegerAttr(pair.layers())),
         b.getNamedAttr("node", b.getStringAttr(nameOf(redone.value))),
         b.getNamedAttr("op", b.getStringAttr(op ? op->getName().getStringRef() : "argument")),
         b.getNamedAttr("bytes", b.getI64IntegerAttr(bytesOf(redone.value))),
         b.getNamedAttr("flops", b.getF64FloatAttr(redone.flops)),
         b.getNamedAttr("ops", b.getArrayAttr(ops))};
    if (Attribute chunk = forward->getAttr(kChunk))
      entries.push_back(b.getNamedAttr("chunk", chunk));
    if (redone.isKept)
      entries.push_back(b.getNamedAttr("kept", b.getUnitAttr()));
    notes.push_back(b.getDictionaryAttr(entries));
  }

  SmallVector<Attribute> notes;
  bool hasLayers = false;
};
} // namespace
} // namespace llmc
