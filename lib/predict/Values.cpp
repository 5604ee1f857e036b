#include "lib/predict/Values.h"

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Parallel.h"

using namespace mlir;
using namespace llmc;

double predict::elementsOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? double(tensor.getNumElements()) : 0;
}

double predict::bytesOf(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? double(tensor.getNumElements()) * std::max(1u, tensor.getElementTypeBitWidth() / 8) : 0;
}

Value predict::rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, parallel::AllGatherOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

Value predict::wholeOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, graph::SliceOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

bool predict::isElementwise(Operation *op) {
  auto graphOp = dyn_cast_or_null<graph::GraphOpInterface>(op);
  return graphOp && graphOp.getEmitClass() == graph::EmitClass::Elementwise;
}
