// Implements the optimizer's update.
#include "dialects/graph/Detail.h"

#include <cmath>

using namespace mlir;
using namespace llmc::graph;

LogicalResult AdamWOp::verify() {
  const Value values[] = {getGrad(), getM(), getV()};
  for (auto [i, value] : llvm::enumerate(values))
    if (shapeOf(value) != shapeOf(getParam()))
      return emitOpError("C1: operand ") << i + 1 << " has shape " << shapeText(shapeOf(value))
                                         << ", expected the parameter's, "
                                         << shapeText(shapeOf(getParam()));
  for (auto [i, value] : llvm::enumerate((*this)->getOperands().drop_front(4)))
    if (!shapeOf(value).empty())
      return emitOpError("C2: operand ") << i + 4 << " has shape " << shapeText(shapeOf(value))
                                         << ", expected a scalar";
  for (auto [name, got, expected] :
       {std::tuple("new_param", getNewParam(), getParam()), std::tuple("new_m", getNewM(), getM()),
        std::tuple("new_v", getNewV(), getV())})
    if (got.getType() != expected.getType())
      return emitOpError("C3: ") << name << " has type " << got.getType() << ", expected "
                                 << expected.getType();
  return success();
}
ShardingRule AdamWOp::getShardingRule() { return elementwiseRule(*this); }
template <typename T>
static void meaning(AdamWOp op, Inputs<T> inputs, Outputs<T> outputs) {
  auto scalar = [&](size_t i) { return inputs[i]->data[0]; };
  T lr = scalar(4), beta1 = scalar(5), beta2 = scalar(6), eps = scalar(7),
    decay = op.getDecay() ? scalar(8) : 0, c1 = scalar(9), c2 = scalar(10);
  for (int64_t i = 0; i < inputs[0]->size(); ++i) {
    T p = inputs[0]->data[i], g = inputs[1]->data[i];
    T m = beta1 * inputs[2]->data[i] + (1 - beta1) * g;
    T v = beta2 * inputs[3]->data[i] + (1 - beta2) * g * g;
    outputs[0].data[i] = p - lr * (decay * p + (m / c1) / (sqrt(v / c2) + eps));
    outputs[1].data[i] = m;
    outputs[2].data[i] = v;
  }
}
LLMC_EVALUATE(AdamWOp)
LogicalResult AdamWOp::differentiate(OpBuilder &, ArrayRef<Value>, SmallVectorImpl<Value> &) {
  return failure();
}
