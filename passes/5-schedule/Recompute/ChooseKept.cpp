// Finds the cheapest set as a minimum cut. Each value that backward would not have anyway is an
// edge that costs its bytes, from its `made` node to its `read` node:
//
// source --never--> made(v)   v is an argument that backward lacks, or no op may compute it again
// made(v) --bytes--> read(v)  v is kept
// read(u) --never--> made(v)  an op that may run again computes v from u
// read(v) --never--> target   backward reads v
#include "passes/5-schedule/Recompute/ChooseKept.h"

#include "lib/support/MinCut.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Block.h"

using namespace mlir;
using namespace llmc;
using support::MinCut;

int64_t llmc::bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

static llvm::DenseSet<Value> findFixed(const RecomputeChoice &choice) {
  llvm::DenseSet<Value> fixed;
  for (BlockArgument arg : choice.block->getArguments())
    if (choice.sourceOf(arg) == Source::State)
      fixed.insert(arg);
  for (Operation &op : *choice.block)
    if (op.getNumRegions() == 0 &&
        llvm::all_of(op.getOperands(), [&](Value v) { return fixed.contains(v); }))
      fixed.insert(op.result_begin(), op.result_end());
  return fixed;
}

llvm::SetVector<Value> llmc::chooseKept(const RecomputeChoice &choice) {
  llvm::DenseSet<Value> fixed = findFixed(choice);
  MinCut cut;
  llvm::MapVector<Value, std::pair<unsigned, unsigned>> nodes; // made, read
  auto add = [&](Value value, bool isSource) {
    if (fixed.contains(value) || !isa<RankedTensorType>(value.getType()))
      return;
    unsigned made = cut.addNode(), read = cut.addNode();
    nodes[value] = {made, read};
    cut.addEdge(made, read, bytesOf(value));
    if (isSource)
      cut.addEdge(MinCut::kSource, made, MinCut::kUncuttable);
  };
  for (BlockArgument arg : choice.block->getArguments())
    if (choice.sourceOf(arg) == Source::None)
      add(arg, /*isSource=*/true);
  for (Operation &op : *choice.block) {
    bool redo = choice.mayRedo(&op, fixed);
    for (Value result : op.getResults()) {
      add(result, !redo);
      auto it = nodes.find(result);
      for (Value operand : op.getOperands())
        if (auto from = nodes.find(operand); redo && it != nodes.end() && from != nodes.end())
          cut.addEdge(from->second.second, it->second.first, MinCut::kUncuttable);
    }
  }
  for (Value value : choice.needed)
    if (auto it = nodes.find(value); it != nodes.end())
      cut.addEdge(it->second.second, MinCut::kTarget, MinCut::kUncuttable);
  std::vector<bool> side = cut.solve();
  llvm::SetVector<Value> kept;
  for (auto &[value, node] : nodes)
    if (side[node.first] && !side[node.second])
      kept.insert(value);
  return kept;
}
