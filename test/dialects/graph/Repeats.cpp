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

class RepeatTest : public testing::TestWithParam<uint64_t> {};

TEST_P(RepeatTest, AlgebraKeepsNumbers) {
  Random random(GetParam());
  testRepeats(random, context());
}

INSTANTIATE_TEST_SUITE_P(Draws, RepeatTest, testing::ValuesIn(seeds()));

} // namespace llmc::graph::test
