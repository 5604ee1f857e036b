#include "passes/4-partition/MapLayers.h"

#include "dialects/graph/Build.h"

using namespace mlir;

Value llmc::mapLayers(OpBuilder &builder, Location loc, Value stacked,
                      llvm::function_ref<Value(OpBuilder &, Value)> body) {
  int64_t count = graph::shapeOf(stacked)[0];
  auto slice = RankedTensorType::get(graph::shapeOf(stacked).drop_front(), graph::elementOf(stacked));
  auto repeat = graph::RepeatOp::create(builder, loc, TypeRange(), stacked.getType(), count,
                                        /*reverse=*/false, ValueRange(), stacked, ValueRange());
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&repeat.getBody());
  Value made = body(builder, block->addArgument(slice, loc));
  graph::YieldOp::create(builder, loc, made);
  // The type of the result is known by now: that of what the body makes, for each layer.
  SmallVector<int64_t> shape = {count};
  llvm::append_range(shape, graph::shapeOf(made));
  repeat->getResult(0).setType(RankedTensorType::get(shape, graph::elementOf(made)));
  return repeat->getResult(0);
}
