// Draws random cases of the ops of the graph dialect.
#include "Cases.h"
#include "mock/SinCos.h"
#include "test/support/CommandLine.h"
#include "test/support/Names.h"

#include <set>

namespace llmc::graph::test {

mlir::MLIRContext *context() {
  static mlir::MLIRContext context;
  context.loadDialect<mlir::func::FuncDialect, GraphDialect, MockDialect>();
  return &context;
}

std::vector<uint64_t> seeds() {
  std::vector<uint64_t> seeds;
  for (int i = 0; i < llmc::test::draws().count; ++i)
    seeds.push_back(llmc::test::draws().seed + i);
  return seeds;
}

namespace {

std::vector<DrawnCase> drawAll() {
  std::vector<DrawnCase> all;
  for (uint64_t seed : seeds()) {
    Random random(seed);
    std::vector<Case> cases = drawCases(random);
    cases.push_back(drawSinCos(random));
    for (Case &test : cases)
      all.push_back({std::move(test), static_cast<uint64_t>(random.below(INT32_MAX))});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Draws, OpTest, testing::ValuesIn(drawAll()), [](const auto &info) {
  return llmc::test::testName(info.param.test.name) + "_" + std::to_string(info.index);
});

TEST(Ops, EveryOpHasACase) {
  std::set<std::string> ops;
  for (const DrawnCase &drawn : drawAll()) {
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(context()));
    ops.insert(onlyOp(makeFunction(*module, drawn.test))->getName().getStringRef().str());
  }
  EXPECT_FALSE(ops.empty());
  for (mlir::RegisteredOperationName name : context()->getRegisteredOperations())
    if (name.hasInterface<GraphOpInterface>())
      EXPECT_TRUE(ops.count(name.getStringRef().str()))
          << "there is a case for " << name.getStringRef().str();
}

} // namespace
} // namespace llmc::graph::test
