#include "passes/2-train/DivideLayers/Costs.h"

#include "passes/2-train/DivideLayers/CutRepeat.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::stages;

LayerCosts stages::costsOf(func::FuncOp forward) {
  std::vector<RepeatLayers> repeats;
  for (auto op : forward.getBody().front().getOps<graph::RepeatOp>())
    repeats.emplace_back(op);
  LayerCosts costs;
  size_t next = 0;
  for (Operation &op : forward.getBody().front().without_terminator()) {
    if (next < repeats.size() && &op == graph::RepeatOp(repeats[next].op).getOperation()) {
      const RepeatLayers &own = repeats[next++];
      std::vector<double> body = own.flops();
      for (int64_t i = 0; i < own.count(); ++i) {
        costs.layers.push_back(body[i % own.inBody]);
        costs.mayBegin.push_back(own.mayBegin(i));
      }
    } else if (auto compute = dyn_cast<graph::GraphOpInterface>(op)) {
      (next == 0 ? costs.before : next == repeats.size() ? costs.after : costs.layers.back()) += compute.getFlops();
    }
  }
  return costs;
}

