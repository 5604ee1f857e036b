// Tests the IR that the phase leaves behind: which values are kept for the backward
// pass, which values are paired, and the origins of ops.
#include "mlir/IR/BuiltinAttributes.h"
#include "test/passes/2-train/Step.h"
#include "test/planfile/Harness.h"

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
LLMC_TEST(a_block_keeps_what_its_gradient_reads) {
  Step step(decoder(2, 3));
  EXPECT(step.train());
  std::vector<RepeatOp> found = repeats(step);
  EXPECT_EQ(found.size(), 2u);
  RepeatOp forward = found[0], backward = found[1];
  EXPECT_EQ(forward.getStackedResults().size(), 2u + 2 * 3 + 3 + 2 + 2);
  EXPECT(!forward.getReverse() && backward.getReverse());
  // dh alone is carried; every accumulator goes through the body.
  EXPECT_EQ(backward.getCarried().size(), 1u);
  EXPECT_EQ(backward.getStackedResults().size(), forward.getStacked().size());
  EXPECT_EQ(backward.getCaptured().size(), 0u);
}

// One id per forward op; a pair joins values of one type; every cotangent that an
// op makes for a value between two layers' ops is in a pair.
LLMC_TEST(cotangents_name_their_primals) {
  Step step(decoder(2, 3));
  EXPECT(step.train());
  std::map<int64_t, Operation *> forward;
  std::set<std::pair<int64_t, int64_t>> paired;
  int64_t backwardOps = 0;
  auto visit = [&](Operation *op) {
    if (op->hasTrait<OpTrait::IsTerminator>())
      return;
    auto id = op->getAttrOfType<IntegerAttr>("graph.id");
    EXPECT(op->hasAttr("graph.backward") != static_cast<bool>(id));
    if (id)
      EXPECT(forward.emplace(id.getInt(), op).second);
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
      EXPECT(forward.count(id) == 1);
      EXPECT(forward[id]->getResult(result).getType() == op->getResult(i).getType());
      EXPECT(paired.insert({id, result}).second);
    }
  });
  // q, k and v before and behind their reshapes among them.
  int64_t reshapes = 0;
  for (auto [id, result] : paired)
    reshapes += isa<ReshapeOp>(forward.at(id));
  EXPECT_EQ(reshapes, 4);
  EXPECT(backwardOps > 0);
}

LLMC_TEST(backward_ops_say_which_node_they_belong_to) {
  Step step(decoder(2, 3));
  EXPECT(step.train());
  std::set<std::string> forward, backward;
  step.function("micro").getBody().walk([&](Operation *op) {
    auto name = dyn_cast<NameLoc>(op->getLoc());
    bool isBackward = op->hasAttr("graph.backward");
    if (!op->hasTrait<OpTrait::IsTerminator>()) {
      EXPECT_MSG(!!name, "an op without a node: " + op->getName().getStringRef().str());
      if (name)
        (isBackward ? backward : forward).insert(name.getName().str());
    }
  });
  for (const char *node : {"q", "attention", "gelu", "ln_1", "ln_2", "down", "wte", "wpe", "head"})
    EXPECT_MSG(backward.count(node), node);
  for (const std::string &node : backward)
    EXPECT_MSG(forward.count(node), node + " is no node of the forward pass");
}

} // namespace
} // namespace llmc::test
