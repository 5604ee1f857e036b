#include "Cases.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace llmc::graph::test {

int64_t Random::size() {
  static constexpr int64_t sizes[] = {2, 4, 6, 2, 4, 3, 1};
  return sizes[below(7)];
}
Shape Random::shape(int64_t lowestRank, int64_t highestRank) {
  Shape shape(between(lowestRank, highestRank));
  for (int64_t &dim : shape)
    dim = size();
  return shape;
}
Shape Random::permutation(int64_t rank) {
  Shape order(rank);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = rank; i-- > 1;)
    std::swap(order[i], order[below(i + 1)]);
  return order;
}
Shape Random::smaller(const Shape &shape) {
  Shape result(shape.begin() + (chance(3) ? below(shape.size() + 1) : 0), shape.end());
  for (int64_t &dim : result)
    if (chance(4))
      dim = 1;
  return result;
}

Tensor drawTensor(Random &random, const Argument &argument, size_t index) {
  Tensor tensor(argument.shape);
  bool isOrdered = argument.kind == Argument::Distinct || argument.distinct;
  Shape order = random.permutation(isOrdered ? tensor.size() : 0);
  for (double &x : tensor.data)
    switch (argument.kind) {
    case Argument::Distinct:
      x = (order[&x - tensor.data.data()] - tensor.size() / 2 + 0.5) / 64;
      break;
    case Argument::Any:
      x = (random.between(-100, 99) + 0.5) / 64 + index / 1024.0;
      break;
    case Argument::Positive:
      x = (random.between(20, 160) + 0.5) / 64 + index / 1024.0;
      break;
    case Argument::Fraction:
      x = (random.below(64) + 0.5) / 64;
      break;
    case Argument::Ids:
      x = random.between(-2, argument.bound + 1);
      if (argument.distinct && x >= 0 && x < argument.bound)
        x = order[&x - tensor.data.data()];
      break;
    case Argument::Logical:
      x = random.below(2);
      break;
    }
  return tensor;
}
std::vector<Tensor> drawInputs(Random &random, const Case &test) {
  std::vector<Tensor> inputs;
  for (auto [i, argument] : llvm::enumerate(test.arguments))
    inputs.push_back(drawTensor(random, argument, i));
  return inputs;
}

Type elementType(MLIRContext *context, const Argument &argument) {
  if (argument.kind == Argument::Ids)
    return IntegerType::get(context, 64);
  if (argument.kind == Argument::Logical)
    return IntegerType::get(context, 1);
  return Float64Type::get(context);
}

func::FuncOp makeFunction(ModuleOp module, StringRef name, TypeRange types,
                          function_ref<SmallVector<Value>(OpBuilder &, ValueRange)> fill) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = builder.getUnknownLoc();
  auto func = func::FuncOp::create(builder, loc, name, builder.getFunctionType(types, {}));
  Block *body = func.addEntryBlock();
  builder.setInsertionPointToStart(body);
  SmallVector<Value> results = fill(builder, body->getArguments());
  func::ReturnOp::create(builder, loc, results);
  func.setFunctionType(builder.getFunctionType(types, ValueRange(results).getTypes()));
  return func;
}
func::FuncOp makeFunction(ModuleOp module, const Case &test) {
  SmallVector<Type> types;
  for (const Argument &argument : test.arguments)
    types.push_back(
        RankedTensorType::get(argument.shape, elementType(module.getContext(), argument)));
  return makeFunction(module, "f", types, [&](OpBuilder &builder, ValueRange arguments) {
    return SmallVector<Value>(test.build(builder, module.getLoc(), arguments)->getResults());
  });
}
Operation *onlyOp(func::FuncOp func) { return &func.front().front(); }

void expectClose(const std::string &what, const Tensor &got, const Tensor &want, double tolerance) {
  double scale = 1, worst = 0;
  bool sameShape = got.shape == want.shape;
  for (int64_t i = 0; sameShape && i < want.size(); ++i) {
    if (got.data[i] == want.data[i])
      continue;
    scale = std::max(scale, std::abs(want.data[i]));
    double difference = std::abs(got.data[i] - want.data[i]);
    worst = std::isnan(difference) ? HUGE_VAL : std::max(worst, difference);
  }
  EXPECT_TRUE(sameShape && worst <= tolerance * scale)
      << what << ": "
      << (sameShape ? llvm::formatv("difference {0:e}", worst / scale).str() : "other shape");
}

std::vector<Tensor> run(const std::string &what, func::FuncOp func, ArrayRef<Tensor> inputs) {
  if (failed(verify(func))) {
    ADD_FAILURE() << what + " verifies";
    return {};
  }
  FailureOr<std::vector<Tensor>> outputs = evaluate(func, inputs);
  if (failed(outputs)) {
    ADD_FAILURE() << what + " runs";
    return {};
  }
  return std::move(*outputs);
}

} // namespace llmc::graph::test
