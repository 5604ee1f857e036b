// llmc-graph-tests [--draws N] [--seed S]: random programs of the graph dialect.
#include "Cases.h"
#include "mock/SinCos.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace llmc::graph;
using namespace llmc::graph::test;

static llvm::cl::opt<int64_t> draws("draws", llvm::cl::desc("random cases for every op"),
                                    llvm::cl::init(5));
static llvm::cl::opt<uint64_t> seed("seed", llvm::cl::desc("of the random cases"),
                                    llvm::cl::init(1));

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv);
  mlir::MLIRContext context;
  context.loadDialect<mlir::func::FuncDialect, GraphDialect, MockDialect>();
  Random random(seed);
  Report report;
  for (int64_t draw = 0; draw < draws; ++draw) {
    std::vector<Case> cases = drawCases(random);
    cases.push_back(drawSinCos(random));
    for (const Case &test : cases) {
      report.test(test.name, [&] { testGradients(random, &context, test, report); });
      report.test(test.name, [&] { testScalars(random, &context, test, report); });
      report.test(test.name, [&] { testSharding(random, &context, test, report); });
    }
    report.test("repeat", [&] { testRepeats(random, &context, report); });
    testFormulas(random, &context, draw == 0, report);
  }
  report.test("bounds by hand", [&] { testBoundsByHand(report); });
  report.test("every op has a case", [&] {
    for (mlir::RegisteredOperationName name : context.getRegisteredOperations())
      if (name.hasInterface<GraphOpInterface>())
        report.that(report.ops.count(name.getStringRef().str()),
                    "there is a case for " + name.getStringRef().str());
  });
  for (const auto &[what, count] : report.cuts)
    llvm::outs() << "cut " << what << ": " << count << "\n";
  llvm::outs() << report.compared << " comparisons in " << report.tests << " tests\n";
  llvm::outs() << report.tests - report.failedTests << " passed, " << report.failedTests
               << " failed\n";
  return report.failedTests || !report.tests;
}
