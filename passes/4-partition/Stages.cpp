#include "passes/4-partition/Stages.h"

#include "dialects/parallel/Annotations.h"

using namespace mlir;
using namespace llmc::parallel;

SmallVector<int64_t> llmc::readCounts(Attribute attr) {
  SmallVector<int64_t> counts;
  if (auto dense = dyn_cast_or_null<DenseI64ArrayAttr>(attr))
    counts.assign(dense.asArrayRef().begin(), dense.asArrayRef().end());
  else if (auto list = dyn_cast_or_null<ArrayAttr>(attr))
    for (Attribute entry : list)
      if (auto number = dyn_cast<IntegerAttr>(entry))
        counts.push_back(number.getInt());
  return counts;
}

int64_t llmc::stageOf(Operation *op, int64_t stages) {
  if (auto stage = op->getAttrOfType<IntegerAttr>(kStage))
    return stage.getInt();
  bool backward = op->hasAttr(kBackward);
  SmallVector<int64_t> counts = readCounts(op->getAttr(kLayers));
  if (static_cast<int64_t>(counts.size()) == stages) // where its last layer runs
    for (int64_t k = 0; k < stages; ++k)
      if (int64_t stage = backward ? k : stages - 1 - k; counts[stage] > 0)
        return stage;
  int64_t stage = -1;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp();
        producer && producer->hasAttr(kBackward) == backward) {
      int64_t s = stageOf(producer, stages);
      stage = stage < 0 ? s : backward ? std::min(stage, s) : std::max(stage, s);
    }
  return stage >= 0 ? stage : backward ? stages - 1 : 0;
}
