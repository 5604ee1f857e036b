// Lets backward compute again what forward would have to keep. ChooseKept.h decides, StagePair.h
// changes what is kept; this file clones what is computed again.
#include "passes/5-schedule/Passes.h"

#include "dialects/graph/Build.h"
#include "mlir/IR/IRMapping.h"
#include "passes/5-schedule/Recompute/ChooseKept.h"
#include "passes/5-schedule/StagePair.h"

namespace llmc {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

bool isCollective(Operation *op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && collective.communicates();
}

// Returns whether `selective` may run the op again: neither a product with a weight (of which one
// operand is fixed), nor fused attention, nor anything that other ranks take part in.
bool isCheap(Operation *op, const llvm::DenseSet<Value> &fixed) {
  if (op->getNumRegions() || isCollective(op) || isa<graph::AttentionOp>(op))
    return false;
  return !isa<graph::MatmulOp, graph::GroupedMatmulOp>(op) ||
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
    SmallVector<Operation *> ops = {};
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
        return (clones.contains(&op) || clones.contains(other)) && op.getOperands() == other->getOperands() &&
               computesAlike(&op, other);
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

// Prices a byte that ranks exchange: a link of 450 GB/s (NVLink 4, one direction) beside half of the
// 989 TFLOP/s of the chip that it leads to (NVIDIA H100 data sheet, SXM, bf16).
constexpr double kFlopsPerByte = 1100;

// Chooses what the blocks of a stage keep.
class StageChoice {
public:
  StageChoice(StagePair &stage, StringRef mode) : stage(stage), mode(mode), pairs(stage.pairs()) {}

  // Returns the choice of the mode for each pair of blocks. `budget` is for `auto`: the bytes that one
  // micro-batch may keep.
  SmallVector<KeptNumbers> run(int64_t budget) const {
    SmallVector<RecomputeChoice> choices = list();
    if (mode == "auto")
      return chooseCheapest(choices, budget);
    return llvm::map_to_vector(choices, chooseFewestBytes);
  }

  // Returns whether a choice is one: as many blocks, and enough of each to compute the rest.
  bool fits(ArrayRef<KeptNumbers> numbers) const {
    SmallVector<RecomputeChoice> choices = list();
    return choices.size() == numbers.size() &&
           llvm::all_of_zip(choices, numbers, [](const RecomputeChoice &choice, const KeptNumbers &kept) {
             return suffices(choice, kept);
           });
  }

  // Returns the values of a block that the numbers stand for, whatever the mode.
  static llvm::SetVector<Value> valuesOf(const StagePair &stage, const BlockPair &pair, ArrayRef<int64_t> numbers) {
    RecomputeChoice choice;
    choice.block = pair.forward;
    choice.sourceOf = [&](BlockArgument arg) { return stage.sourceOf(pair, arg); };
    return llmc::valuesOf(choice, numbers);
  }

private:
  SmallVector<RecomputeChoice> list() const {
    return llvm::map_to_vector(pairs, [&](const BlockPair &pair) { return choiceFor(pair); });
  }

  RecomputeChoice choiceFor(const BlockPair &pair) const {
    RecomputeChoice choice;
    choice.block = pair.forward;
    for (auto &[value, args] : pair.kept)
      choice.needed.push_back(value);
    choice.sourceOf = [this, &pair](BlockArgument arg) { return stage.sourceOf(pair, arg); };
    bool all = mode == "auto" || (mode == "full" && pair.forwardRepeat);
    choice.mayRedo = [all](Operation *op, const llvm::DenseSet<Value> &fixed) {
      // Keeps routes, which roundings of another kernel could change where scores nearly tie.
      return !isa<graph::RouteOp>(op) && (all ? op->getNumRegions() == 0 : isCheap(op, fixed));
    };
    choice.priceOf = [&pair](Operation *op) { return priceOf(pair, op); };
    choice.layers = pair.layers();
    return choice;
  }

  static double priceOf(const BlockPair &pair, Operation *op) {
    if (isCollective(op))
      return isMadeAnyway(pair, op) ? 0
                                    : kFlopsPerByte * double(std::max(tensorBytes(op->getOperand(0)),
                                                                      tensorBytes(op->getResult(0))));
    auto compute = dyn_cast<graph::GraphOpInterface>(op);
    return compute ? compute.getFlops() : 0;
  }

  // Returns whether the backward makes the same call of its own accord.
  static bool isMadeAnyway(const BlockPair &pair, Operation *op) {
    auto kept = pair.kept.find(op->getOperand(0));
    return kept != pair.kept.end() && llvm::any_of(kept->second, [&](BlockArgument arg) {
             return llvm::any_of(arg.getUsers(), [&](Operation *user) { return computesAlike(user, op); });
           });
  }

  StagePair &stage;
  StringRef mode;
  SmallVector<BlockPair, 2> pairs;
};

struct Recompute : impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!llvm::is_contained({"none", "selective", "full", "auto"}, StringRef(mode))) {
      module.emitError("unknown mode of recomputation '")
          << mode << "'; known are none, selective, full and auto";
      return signalPassFailure();
    }
    if (mode == "none" || isInference(module))
      return;
    for (auto [forward, backward] : functionPairs(module))
      if (failed(run(forward, backward)))
        return signalPassFailure();
    if (mode == "full" && !hasLayers)
      module.emitRemark("--recompute full computes layers again from their inputs, and no layers are "
                        "folded here: it does what selective does");
    module->setAttr("plan.recomputed", ArrayAttr::get(&getContext(), notes));
    if (mode == "auto")
      module->setAttr(kKept, ArrayAttr::get(&getContext(), chosen));
  }

  // Returns what module attribute `plan.kept` says for the next pair of functions; null without it.
  ArrayAttr recorded() {
    auto all = getOperation()->getAttrOfType<ArrayAttr>(kKept);
    auto entry = all && chosen.size() < all.size() ? dyn_cast<DictionaryAttr>(all[chosen.size()]) : nullptr;
    return entry ? entry.getAs<ArrayAttr>("blocks") : ArrayAttr();
  }

  // Returns what each pair of blocks keeps. Fails after errors.
  FailureOr<SmallVector<KeptNumbers>> choose(StagePair &stage) {
    ArrayAttr given = mode == "auto" ? recorded() : ArrayAttr();
    if (!given) {
      int64_t budget = chosen.size() < budgets.size() ? budgets[chosen.size()]
                                                      : std::numeric_limits<int64_t>::max();
      return StageChoice(stage, mode).run(budget);
    }
    SmallVector<KeptNumbers> numbers;
    for (auto list : given.getAsRange<DenseI64ArrayAttr>())
      numbers.emplace_back(list.asArrayRef().begin(), list.asArrayRef().end());
    if (!StageChoice(stage, mode).fits(numbers))
      return getOperation()->emitError("plan.kept does not fit stage ")
             << stage.forward->getAttr(kStage) << ": it names what a block does not have, or too little to "
             << "compute what the backward reads";
    return numbers;
  }

  LogicalResult run(func::FuncOp forward, func::FuncOp backward) {
    StagePair stage(forward, backward);
    FailureOr<SmallVector<KeptNumbers>> choice = choose(stage);
    if (failed(choice))
      return failure();
    Builder b(&getContext());
    SmallVector<Attribute> lists;
    int64_t bytes = 0;
    for (auto [i, numbers] : llvm::enumerate(*choice)) {
      BlockPair pair = stage.pairs()[i];
      hasLayers |= bool(pair.forwardRepeat);
      llvm::SetVector<Value> kept = StageChoice::valuesOf(stage, pair, numbers);
      for (Value value : kept)
        bytes += tensorBytes(value) * pair.layers();
      lists.push_back(b.getDenseI64ArrayAttr(numbers));
      for (const Redo::Result &redone : Redo(stage, pair, kept).run())
        note(forward, pair, redone);
    }
    stage.clean();
    chosen.push_back(b.getDictionaryAttr({b.getNamedAttr("stage", forward->getAttr(kStage)),
                                          b.getNamedAttr("bytes", b.getI64IntegerAttr(bytes)),
                                          b.getNamedAttr("blocks", b.getArrayAttr(lists))}));
    return success();
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
         b.getNamedAttr("bytes", b.getI64IntegerAttr(tensorBytes(redone.value))),
         b.getNamedAttr("flops", b.getF64FloatAttr(redone.flops)),
         b.getNamedAttr("ops", b.getArrayAttr(ops))};
    if (Attribute chunk = forward->getAttr(kChunk))
      entries.push_back(b.getNamedAttr("chunk", chunk));
    if (redone.isKept)
      entries.push_back(b.getNamedAttr("kept", b.getUnitAttr()));
    notes.push_back(b.getDictionaryAttr(entries));
  }

  SmallVector<Attribute> notes, chosen; // of all pairs of functions so far
  bool hasLayers = false;
};
} // namespace
} // namespace llmc
