// Tests the IR that the phase leaves behind: which values are kept for the backward
// pass, which values are paired, and the origins of ops.
#include "mlir/IR/BuiltinAttributes.h"
#include "test/passes/2-train/Step.h"

#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace llmc::graph;

namespace llmc::test {
namespace {

std::vector<RepeatOp> repeats(Step &step) {
  std::vector<RepeatOp> found;
  for (auto op : step.function("micro").getOps<RepeatOp>())
    found.push_back(op);
  return found;
}

// A block keeps its input and the second residual, of each norm its output, mean
// and rstd, q, k, v, attention's output and lse, GELU's input and output. The
// reshapes between matmul and attention are done again.
TEST(Structure, ABlockKeepsWhatItsGradientReads) {
  Step step(decoder(2, 3));
  EXPECT_TRUE(step.train());
  std::vector<RepeatOp> found = repeats(step);
  EXPECT_EQ(found.size(), 2u);
  RepeatOp forward = found[0], backward = found[1];
  EXPECT_EQ(forward.getStackedResults().size(), 2u + 2 * 3 + 3 + 2 + 2);
  EXPECT_TRUE(!forward.getReverse() && backward.getReverse());
  // dh alone is carried; every accumulator goes through the body.
  EXPECT_EQ(backward.getCarried().size(), 1u);
  EXPECT_EQ(backward.getStackedResults().size(), forward.getStacked().size());
  EXPECT_EQ(backward.getCaptured().size(), 0u);
}

// One id per forward op; a pair joins values of one type; every cotangent that an
// op makes for a value between two layers' ops is in a pair.
TEST(Structure, CotangentsNameTheirPrimals) {
  Step step(decoder(2, 3));
  EXPECT_TRUE(step.train());
  std::map<int64_t, Operation *> forward;
  std::set<std::pair<int64_t, int64_t>> paired;
  int64_t backwardOps = 0;
  auto visit = [&](Operation *op) {
    if (op->hasTrait<OpTrait::IsTerminator>())
      return;
    auto id = op->getAttrOfType<IntegerAttr>("graph.id");
    EXPECT_TRUE(op->hasAttr("graph.backward") != static_cast<bool>(id));
    if (id)
      EXPECT_TRUE(forward.emplace(id.getInt(), op).second);
    else
      ++backwardOps;
  };
  step.function("micro").getBody().walk(visit);
  step.function("micro").getBody().walk([&](Operation *op) {
    auto pairs = op->getAttrOfType<DenseI64ArrayAttr>("graph.cotangent_of");
    if (!pairs)
      return;
    EXPECT_EQ(static_cast<size_t>(pairs.size()), 2 * op->getNumResults());
    for (unsigned i = 0; i < op->getNumResults(); ++i) {
      int64_t id = pairs[2 * i], result = pairs[2 * i + 1];
      if (id < 0)
        continue;
      EXPECT_TRUE(forward.count(id) == 1);
      EXPECT_TRUE(forward[id]->getResult(result).getType() == op->getResult(i).getType());
      EXPECT_TRUE(paired.insert({id, result}).second);
    }
  });
  // q, k and v before and behind their reshapes among them.
  int64_t reshapes = 0;
  for (auto [id, result] : paired)
    reshapes += isa<ReshapeOp>(forward.at(id));
  EXPECT_EQ(reshapes, 4);
  EXPECT_TRUE(backwardOps > 0);
}

TEST(Structure, BackwardOpsSayWhichNodeTheyBelongTo) {
  Step step(decoder(2, 3));
  EXPECT_TRUE(step.train());
  std::set<std::string> forward, backward;
  step.function("micro").getBody().walk([&](Operation *op) {
    auto name = dyn_cast<NameLoc>(op->getLoc());
    bool isBackward = op->hasAttr("graph.backward");
    if (!op->hasTrait<OpTrait::IsTerminator>()) {
      EXPECT_TRUE(!!name) << "an op without a node: " + op->getName().getStringRef().str();
      if (name)
        (isBackward ? backward : forward).insert(name.getName().str());
    }
  });
  for (const char *node : {"q", "attention", "gelu", "ln_1", "ln_2", "down", "wte", "wpe", "head"})
    EXPECT_TRUE(backward.count(node)) << node;
  for (const std::string &node : backward)
    EXPECT_TRUE(forward.count(node)) << node + " is no node of the forward pass";
}

} // namespace
} // namespace llmc::test
