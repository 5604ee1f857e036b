// The algebra of graph.repeat: equal numbers before and after.
#include "Cases.h"
#include "dialects/graph/Repeat.h"

using namespace mlir;

namespace llmc::graph::test {

// func @f(x, y, w, z, c): a repeat with two carried values, two stacked
// operands, a captured one, and two stacked results; all results are returned.
static func::FuncOp makeRepeat(ModuleOp module, int64_t count, bool reverse) {
  OpBuilder types(module.getContext());
  auto row = RankedTensorType::get({3}, types.getF64Type());
  auto rows = RankedTensorType::get({count, 3}, types.getF64Type());
  auto numbers = RankedTensorType::get({count}, types.getF64Type());
  return makeFunction(
      module, "f", {row, row, rows, numbers, row}, [&](OpBuilder &builder, ValueRange arguments) {
        Location loc = builder.getUnknownLoc();
        auto repeat = RepeatOp::create(builder, loc, TypeRange{row, row}, TypeRange{rows, numbers},
                                       count, reverse, arguments.take_front(2),
                                       arguments.slice(2, 2), arguments.take_back(1));
        auto scalar = RankedTensorType::get({}, builder.getF64Type());
        Block *body = &repeat.getBody().emplaceBlock();
        body->addArguments({row, row, row, scalar, row}, SmallVector<Location>(5, loc));
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(body);
        Build b(builder, loc);
        Value x = body->getArgument(0), y = body->getArgument(1), w = body->getArgument(2),
              z = body->getArgument(3), c = body->getArgument(4);
        Value next = b.add(b.mul(x, w), b.mul(y, z));
        Value sum = b.reduce(b.mul(next, c), ReduceKind::sum, {0});
        YieldOp::create(builder, loc, ValueRange{next, b.sub(x, c), next, sum});
        return SmallVector<Value>(repeat.getResults());
      });
}

static RepeatOp repeatOf(func::FuncOp func) {
  return *func.getOps<RepeatOp>().begin();
}

static void compare(const std::string &what, func::FuncOp func, ArrayRef<Tensor> inputs,
                    ArrayRef<Tensor> want) {
  std::vector<Tensor> got = run(what, func, inputs);
  EXPECT_TRUE(got.size() == want.size()) << what + " has as many results";
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i)
    expectClose(what, got[i], want[i], 0);
}

// Collects a yielded value and a carried argument once more.
static void testAddStacked(func::FuncOp func, ArrayRef<Tensor> inputs, ArrayRef<Tensor> want,
                           const std::string &what) {
  OpBuilder builder(func.getContext());
  RepeatOp op = repeatOf(func);
  Value yielded = op.getBlock().getTerminator()->getOperand(0);
  auto [withValue, again] = addStackedResult(builder, op, yielded);
  Operation *ret = func.front().getTerminator();
  ret->insertOperands(ret->getNumOperands(), again);
  auto [withArgument, entering] =
      addStackedResult(builder, withValue, withValue.getCarriedArgs()[0]);
  ret->insertOperands(ret->getNumOperands(), entering);
  func.setFunctionType(builder.getFunctionType(func.getArgumentTypes(), ret->getOperandTypes()));
  std::vector<Tensor> expected(want);
  expected.push_back(want[2]); // `next` is stacked already
  // The carried value of an iteration is the result of the one before it.
  Tensor shifted = want[2];
  int64_t count = withArgument.getCount();
  for (int64_t i = 0; i < count; ++i) {
    int64_t before = withArgument.getReverse() ? i + 1 : i - 1;
    const double *from = before < 0 || before >= count ? inputs[0].data.data()
                                                       : &want[2].data[before * 3];
    std::copy_n(from, 3, &shifted.data[i * 3]);
  }
  expected.push_back(shifted);
  compare(what, func, inputs, expected);
}

static void testRepeats(Random &random, MLIRContext *context) {
  int64_t count = random.between(1, 5);
  bool reverse = random.chance(2);
  std::vector<Tensor> inputs;
  for (const Shape &shape : {Shape{3}, Shape{3}, Shape{count, 3}, Shape{count}, Shape{3}})
    inputs.push_back(drawTensor(random, {Argument::Any, shape}, inputs.size()));
  std::string name = std::string(reverse ? "reversed " : "") + "repeat of " + std::to_string(count);
  OpBuilder builder(context);
  auto attempt = [&](const std::string &what, auto change) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
    func::FuncOp func = makeRepeat(*module, count, reverse);
    std::vector<Tensor> want = run(name, func, inputs);
    change(func, want);
    if (want.size() == 4)
      compare(name + " " + what, func, inputs, want);
  };
  attempt("unrolled", [&](func::FuncOp func, auto &) {
    EXPECT_TRUE(succeeded(unrollRepeat(builder, repeatOf(func))) && func.getOps<RepeatOp>().empty())
        << name + " unrolls";
  });
  attempt("peeled", [&](func::FuncOp func, auto &) {
    EXPECT_TRUE(succeeded(peelFirst(builder, repeatOf(func)))) << name + " peels";
    auto left = func.getOps<RepeatOp>();
    EXPECT_TRUE(count == 1 ? left.empty()
                           : static_cast<int64_t>((*left.begin()).getCount()) == count - 1)
        << name + " has one less";
  });
  attempt("turned", [&](func::FuncOp func, auto &) {
    EXPECT_TRUE(reverseRepeat(builder, repeatOf(func)).getReverse() != reverse) << name + " turns";
  });
  for (int64_t at = 1; at < count; ++at)
    attempt("split", [&](func::FuncOp func, auto &) {
      auto [first, second] = splitRepeat(builder, repeatOf(func), at);
      EXPECT_TRUE(static_cast<int64_t>(first.getCount()) == at &&
                  static_cast<int64_t>(second.getCount()) == count - at)
          << name + " splits";
    });
  attempt("stacking more", [&](func::FuncOp func, std::vector<Tensor> &want) {
    testAddStacked(func, inputs, want, name + " stacking more");
    want.clear();
  });
}

//===-- Carried values that nothing needs ---------------------------------------===//

// Builds func @f(x, y, z, u, w, c): a repeat that carries x, which needs itself alone, y, which
// needs x and itself, z, which needs y and itself, and u, which needs z and itself, with stacked
// results of x and of z. The function returns those of its results that `used` has.
static func::FuncOp makeChain(ModuleOp module, int64_t count, bool reverse,
                              const std::vector<bool> &used) {
  OpBuilder types(module.getContext());
  auto row = RankedTensorType::get({3}, types.getF64Type());
  auto rows = RankedTensorType::get({count, 3}, types.getF64Type());
  return makeFunction(
      module, "f", {row, row, row, row, rows, row}, [&](OpBuilder &builder, ValueRange arguments) {
        Location loc = builder.getUnknownLoc();
        auto repeat = RepeatOp::create(
            builder, loc, TypeRange{row, row, row, row}, TypeRange{rows, rows}, count, reverse,
            arguments.take_front(4), arguments.slice(4, 1), arguments.take_back(1));
        Block *body = &repeat.getBody().emplaceBlock();
        body->addArguments(SmallVector<Type>(6, row), SmallVector<Location>(6, loc));
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(body);
        Build b(builder, loc);
        Value x = b.mul(body->getArgument(0), body->getArgument(4));
        Value y = b.add(b.mul(body->getArgument(1), body->getArgument(5)), body->getArgument(0));
        Value z = b.sub(body->getArgument(2), body->getArgument(1));
        Value u = b.add(body->getArgument(3), body->getArgument(2));
        YieldOp::create(builder, loc, ValueRange{x, y, z, u, x, z});
        SmallVector<Value> results;
        for (auto [i, result] : llvm::enumerate(repeat.getResults()))
          if (used[i])
            results.push_back(result);
        return results;
      });
}

// Drops the results and the carried values of a repeat that nothing needs. Those that are needed
// stay: x and what stands before the last one that is read.
static void testDropped(Random &random, MLIRContext *context) {
  int64_t count = random.between(1, 5);
  bool reverse = random.chance(2);
  std::vector<Tensor> inputs;
  for (const Shape &shape : {Shape{3}, Shape{3}, Shape{3}, Shape{3}, Shape{count, 3}, Shape{3}})
    inputs.push_back(drawTensor(random, {Argument::Any, shape}, inputs.size()));
  std::vector<bool> used;
  for (int i = 0; i < 6; ++i)
    used.push_back(random.chance(3));
  std::string name =
      std::string(reverse ? "reversed " : "") + "chain of " + std::to_string(count) + " that uses";
  for (bool one : used)
    name += one ? " 1" : " 0";
  unsigned needed = used[3] ? 4 : used[2] || used[5] ? 3 : used[1] ? 2 : used[0] || used[4] ? 1 : 0;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  func::FuncOp func = makeChain(*module, count, reverse, used);
  std::vector<Tensor> want = run(name, func, inputs);
  OpBuilder builder(context);
  RepeatOp op = dropUnusedResults(builder, repeatOf(func));
  op->setAttr("graph.backward", builder.getUnitAttr());
  RepeatOp left = dropUnusedCarried(builder, op);
  EXPECT_EQ(left.getCarried().size(), needed) << name;
  EXPECT_EQ(left.getStackedResults().size(), unsigned(used[4]) + unsigned(used[5])) << name;
  EXPECT_TRUE(left->hasAttr("graph.backward") && left.getReverse() == reverse) << name;
  EXPECT_TRUE(needed < 4 || left == op) << name + " is built anew though all is needed";
  EXPECT_TRUE(dropUnusedCarried(builder, left) == left) << name + " has more to drop";
  // Counts the ops of the body: x, z and u are computed with one each, y with two.
  const size_t ops[] = {0, 1, 3, 4, 5};
  EXPECT_EQ(size_t(llvm::range_size(left.getBlock().without_terminator())), ops[needed]) << name;
  compare(name, func, inputs, want);
}

class RepeatTest : public testing::TestWithParam<uint64_t> {};

TEST_P(RepeatTest, AlgebraKeepsNumbers) {
  Random random(GetParam());
  testRepeats(random, context());
}

TEST_P(RepeatTest, WhatNothingNeedsIsNotCarried) {
  Random random(GetParam());
  testDropped(random, context());
}

INSTANTIATE_TEST_SUITE_P(Draws, RepeatTest, testing::ValuesIn(seeds()));

} // namespace llmc::graph::test
