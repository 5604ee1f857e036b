#include "test/dialects/graph/mock/SinCos.h"

#include <cmath>

using namespace mlir;

MLIR_DEFINE_EXPLICIT_TYPE_ID(llmc::graph::test::SinCosOp)
MLIR_DEFINE_EXPLICIT_TYPE_ID(llmc::graph::test::MockDialect)

namespace llmc::graph::test {

MockDialect::MockDialect(MLIRContext *context)
    : Dialect(getDialectNamespace(), context, TypeID::get<MockDialect>()) {
  context->loadDialect<GraphDialect>();
  addOperations<SinCosOp>();
}

void SinCosOp::build(OpBuilder &, OperationState &state, Value x) {
  state.addOperands(x);
  state.addTypes({x.getType(), x.getType()});
}

SinCosOp SinCosOp::create(OpBuilder &builder, Location loc, Value x) {
  OperationState state(loc, getOperationName());
  build(builder, state, x);
  return cast<SinCosOp>(builder.create(state));
}

LogicalResult SinCosOp::verify() {
  for (Value result : getOperation()->getResults())
    if (result.getType() != getOperand().getType())
      return emitOpError("C1: results have the operand's type ")
             << getOperand().getType() << ", got " << result.getType();
  return success();
}

ShardingRule SinCosOp::getShardingRule() { return elementwiseRule(*this); }

template <typename T> static void meaning(SinCosOp, Inputs<T> inputs, Outputs<T> outputs) {
  for (int64_t i = 0; i < inputs[0]->size(); ++i) {
    outputs[0].data[i] = sin(inputs[0]->data[i]);
    outputs[1].data[i] = cos(inputs[0]->data[i]);
  }
}
LLMC_EVALUATE(SinCosOp)

// d sin = cos, d cos = -sin; either result may have no cotangent.
LogicalResult SinCosOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &operandCotangents) {
  Build b(builder, getLoc());
  Value sine = (*this)->getResult(0), cosine = (*this)->getResult(1), total;
  if (cotangents[0])
    total = b.mul(cotangents[0], cosine);
  if (cotangents[1]) {
    Value part = b.neg(b.mul(cotangents[1], sine));
    total = total ? b.add(total, part) : part;
  }
  operandCotangents.push_back(total);
  return success();
}

} // namespace llmc::graph::test
