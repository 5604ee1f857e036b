// Sharding rules: an op cut in two along a factor gives the parts, the partial
// sums or the partial maxima that its rule promises.
#include "Cases.h"
#include "dialects/graph/Detail.h"

using namespace mlir;

namespace llmc::graph::test {

static bool carries(const TensorFactors &dims, unsigned factor) {
  return llvm::any_of(dims, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
}

// The half of `tensor` in which `factor` has its lower (part 0) or upper half.
static Tensor half(const Tensor &tensor, const TensorFactors &dims, const ShardingRule &rule,
                   unsigned factor, int64_t part) {
  Shape walkShape, shape = tensor.shape;
  Strides own = tensor.strides(), walk;
  int64_t start = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t stride = own[d] * shape[d];
    if (dims[d].empty()) {
      walkShape.push_back(shape[d]);
      walk.push_back(own[d]);
    }
    for (unsigned f : dims[d]) {
      int64_t size = rule.factors[f].size;
      stride /= size;
      if (f == factor) {
        size /= 2;
        start += part * size * stride;
      }
      walkShape.push_back(size);
      walk.push_back(stride);
    }
    if (llvm::is_contained(dims[d], factor))
      shape[d] /= 2;
  }
  Tensor result(shape);
  double *out = result.data.data();
  forEach(
      walkShape, {walk}, [&](const int64_t *from) { *out++ = tensor.data[from[0]]; }, {start});
  return result;
}

static void checkShape(const Case &test, const ShardingRule &rule, const TensorFactors &dims,
                       Value value) {
  EXPECT_TRUE(dims.size() == shapeOf(value).size()) << test.name + " rule has the rank";
  for (auto [dim, size] : llvm::zip(dims, shapeOf(value))) {
    int64_t product = 1;
    for (unsigned factor : dim)
      product *= rule.factors[factor].size;
    EXPECT_TRUE(dim.empty() || product == size) << test.name + " rule has the sizes";
  }
}

static RankedTensorType halfType(Value value, const TensorFactors &dims, unsigned factor) {
  SmallVector<int64_t> shape(shapeOf(value));
  for (size_t d = 0; d < shape.size(); ++d)
    if (llvm::is_contained(dims[d], factor))
      shape[d] /= 2;
  return RankedTensorType::get(shape, elementOf(value));
}

// Runs `op` on one half along `factor`.
static std::vector<Tensor> runHalf(Operation *op, const ShardingRule &rule, unsigned factor,
                                   int64_t part, ArrayRef<Tensor> inputs, const Case &test) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
  SmallVector<Type> operandTypes, resultTypes;
  std::vector<Tensor> local;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    operandTypes.push_back(halfType(operand, rule.operands[i], factor));
    local.push_back(half(inputs[i], rule.operands[i], rule, factor, part));
  }
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    resultTypes.push_back(halfType(result, rule.results[i], factor));
  // Ops that look at an index have their offset last.
  if (rule.offsetFactor == static_cast<int>(factor))
    local.back().data[0] += part * rule.factors[factor].size / 2;
  func::FuncOp func =
      makeFunction(*module, "part", operandTypes, [&](OpBuilder &builder, ValueRange arguments) {
        return SmallVector<Value>(
            cloneForTypes(builder, op, arguments, resultTypes)->getResults());
      });
  return run(test.name + " cut", func, local);
}

static std::string kindName(FactorKind kind) {
  return kind == FactorKind::Parallel     ? "parallel"
         : kind == FactorKind::ReducedSum ? "sum"
         : kind == FactorKind::ReducedMax ? "max"
         : kind == FactorKind::Owned      ? "owned"
                                          : "replicated";
}

static void cutFactor(Operation *op, const ShardingRule &rule, unsigned factor,
                      ArrayRef<Tensor> inputs, ArrayRef<Tensor> full, const Case &test) {
  FactorKind kind = rule.factors[factor].kind;
  std::string what = test.name + " cut along factor " + std::to_string(factor) + " (" +
                     kindName(kind) + ")";
  std::vector<Tensor> lower = runHalf(op, rule, factor, 0, inputs, test);
  std::vector<Tensor> upper = runHalf(op, rule, factor, 1, inputs, test);
  if (lower.empty() || upper.empty())
    return;
  for (size_t i = 0; i < full.size(); ++i) {
    if (carries(rule.results[i], factor)) {
      expectClose(what, lower[i], half(full[i], rule.results[i], rule, factor, 0), 1e-12);
      expectClose(what, upper[i], half(full[i], rule.results[i], rule, factor, 1), 1e-12);
      continue;
    }
    EXPECT_TRUE(kind != FactorKind::Parallel) << what + ": a result lacks a parallel factor";
    Tensor joined = lower[i];
    for (int64_t k = 0; k < joined.size(); ++k)
      joined.data[k] = kind == FactorKind::ReducedMax ? std::max(joined.data[k], upper[i].data[k])
                                                      : joined.data[k] + upper[i].data[k];
    expectClose(what, joined, full[i], 1e-12);
  }
}

// f(x) + f(x') = f(x + x') in the operands listed together.
static void testLinear(func::FuncOp func, ArrayRef<unsigned> operands, Random &random,
                       ArrayRef<Tensor> inputs, ArrayRef<Tensor> full, const Case &test) {
  std::vector<Tensor> other(inputs), both(inputs);
  for (unsigned k : operands) {
    other[k] = drawTensor(random, {Argument::Any, inputs[k].shape}, k);
    for (int64_t i = 0; i < other[k].size(); ++i)
      both[k].data[i] += other[k].data[i];
  }
  std::vector<Tensor> a = run(test.name, func, other);
  std::vector<Tensor> sum = run(test.name, func, both);
  for (size_t i = 0; i < full.size(); ++i) {
    for (int64_t k = 0; k < a[i].size(); ++k)
      a[i].data[k] += full[i].data[k];
    expectClose(test.name + " is linear", a[i], sum[i], 1e-12);
  }
}

static void testSharding(Random &random, MLIRContext *context, const Case &test) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  func::FuncOp func = makeFunction(*module, test);
  Operation *op = onlyOp(func);
  ShardingRule rule = cast<GraphOpInterface>(op).getShardingRule();
  EXPECT_TRUE(rule.operands.size() == op->getNumOperands() &&
              rule.results.size() == op->getNumResults())
      << test.name + " rule covers all operands and results";
  for (auto [dims, operand] : llvm::zip(rule.operands, op->getOperands()))
    checkShape(test, rule, dims, operand);
  for (auto [dims, result] : llvm::zip(rule.results, op->getResults()))
    checkShape(test, rule, dims, result);
  std::vector<Tensor> inputs = drawInputs(random, test);
  std::vector<Tensor> full = run(test.name, func, inputs);
  if (full.empty())
    return;
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (rule.factors[factor].kind != FactorKind::Replicated &&
        rule.factors[factor].size % 2 == 0)
      cutFactor(op, rule, factor, inputs, full, test);
  for (const auto &operands : rule.linearIn)
    testLinear(func, operands, random, inputs, full, test);
}

TEST_P(OpTest, Sharding) { testSharding(random, context(), GetParam().test); }

} // namespace llmc::graph::test
