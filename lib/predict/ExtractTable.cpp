#include "lib/predict/ExtractTable.h"

#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Annotations.h"
#include "lib/predict/KeptCounter.h"
#include "lib/predict/Layers.h"
#include "lib/predict/Values.h"
#include "lib/predict/WorkCounter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::cost;
using namespace llmc::predict;

namespace {

// Counts the parameters that the block arguments of a function stand for.
class ParameterCounter {
public:
  ParameterCounter(func::FuncOp forward, const SymbolTable &symbols, ArrayRef<int64_t> bodies)
      : forward_(forward), symbols_(symbols), bodies_(bodies) {}

  // Adds those of each repeat to its part, the others to what stands before or after.
  void count(ArrayRef<graph::RepeatOp> repeats, ArrayRef<Part *> parts, Table &table) {
    Part &before = table.before, &after = table.after;
    for (BlockArgument arg : forward_.getArguments()) {
      auto symbol = forward_.getArgAttrOfType<SymbolRefAttr>(arg.getArgNumber(), graph::kState);
      auto state = symbol ? symbols_.lookup<graph::StateOp>(symbol.getRootReference()) : graph::StateOp();
      if (!state || arg.use_empty() || isAccumulator(state))
        continue;
      double local = elementsOf(arg.getType()), whole = elementsOf(stateType(state));
      Part *part = nullptr;
      bool isExpert = false;
      for (OpOperand &use : arg.getUses()) {
        auto at = llvm::find(repeats, use.getOwner());
        if (at == repeats.end())
          continue;
        part = parts[at - repeats.begin()];
        double layers = double(graph::RepeatOp(*at).getCount() * bodies_[at - repeats.begin()]);
        local /= layers, whole /= layers;
        isExpert = feedsExperts(graph::RepeatOp(*at).getBlock().getArgument(use.getOperandNumber()));
        break;
      }
      if (!part)
        part = isBeforeLayers(arg, repeats) ? &before : &after;
      if (part == &before && !repeats.empty() &&
          llvm::any_of(arg.getUsers(), [&](Operation *user) { return repeats.back()->isBeforeInBlock(user); }))
        table.tied += local;
      (isExpert ? part->parameters.expert : part->parameters.dense) += local;
      part->wholeParameters += whole;
      if (isExpert)
        part->wholeExperts += whole;
    }
  }

private:
  static bool isAccumulator(graph::StateOp state) { return state.getRole() != graph::Role::parameter; }
  static Type stateType(graph::StateOp state) { return state.getType(); }
  static bool isBeforeLayers(BlockArgument arg, ArrayRef<graph::RepeatOp> repeats) {
    if (repeats.empty())
      return true;
    graph::RepeatOp first = repeats.front();
    return llvm::any_of(arg.getUsers(), [&](Operation *user) { return user->isBeforeInBlock(first); });
  }

  func::FuncOp forward_;
  const SymbolTable &symbols_;
  ArrayRef<int64_t> bodies_;
};

} // namespace

Table predict::extractTable(ModuleOp module, cost::Profile software, ArrayRef<int64_t> bodies) {
  Table table;
  auto forward = module.lookupSymbol<func::FuncOp>("forward_0");
  auto backward = module.lookupSymbol<func::FuncOp>("backward_0");
  if (!forward || !backward)
    return table;
  SymbolTable symbols(module);
  WorkCounter counter(parallel::getMesh(module), symbols, software);
  llvm::SmallVector<graph::RepeatOp> repeats = repeatsOf(forward), reversed = repeatsOf(backward);
  std::vector<Part> kinds(repeats.size());
  KeptCounter before, after;
  size_t passed = 0;
  for (Operation &op : forward.getBody().front()) {
    if (auto repeat = dyn_cast<graph::RepeatOp>(op)) {
      KeptCounter kept(graph::layersInBody(repeat) / bodies[passed]);
      Part &part = kinds[passed++];
      for (Operation &inner : repeat.getBlock()) {
        counter.count(&inner, part.forward);
        kept.count(&inner);
      }
      part.inputs = kept.inputs, part.unfused = kept.unfused, part.products = kept.products;
      for (BlockArgument arg : repeat.getCarriedArgs())
        part.carried += bytesOf(arg);
      continue;
    }
    counter.count(&op, passed ? table.after.forward : table.before.forward);
    (passed ? after : before).count(&op);
    if (auto matmul = dyn_cast<graph::MatmulOp>(op); matmul && passed)
      table.after.logits = std::max(table.after.logits, elementsOf(matmul.getResult().getType()));
  }
  table.before.inputs = before.inputs, table.before.unfused = before.unfused;
  table.after.inputs = after.inputs, table.after.unfused = after.unfused;
  size_t left = reversed.size();
  for (Operation &op : backward.getBody().front()) {
    if (auto repeat = dyn_cast<graph::RepeatOp>(op)) {
      --left;
      if (left < kinds.size())
        for (Operation &inner : repeat.getBlock())
          counter.count(&inner, kinds[left].backward);
      continue;
    }
    counter.count(&op, left == reversed.size() ? table.after.backward : table.before.backward);
  }
  llvm::SmallVector<Part *> parts;
  for (Part &kind : kinds)
    parts.push_back(&kind);
  ParameterCounter(forward, symbols, bodies).count(repeats, parts, table);

  setLayers(module, repeats, bodies, std::move(kinds), table);
  setExperts(forward, table);
  return table;
}
