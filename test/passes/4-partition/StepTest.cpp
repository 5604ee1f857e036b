// The partitioned step on every rank of a mesh equals the step on one rank.
#include "test/passes/2-train/Step.h"
#include "dialects/parallel/Evaluate.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Passes.h"
#include "passes/4-partition/Pipeline.h"
#include "test/passes/4-partition/Annotate.h"
#include "test/passes/4-partition/Check.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace mlir;
using namespace llmc;
using namespace llmc::test;
using parallel::StepInput;
using parallel::StepOutput;

namespace {

struct Model {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;

  explicit Model(const std::string &text, bool adamw = true) {
    context.loadDialect<func::FuncDialect, graph::GraphDialect, parallel::ParallelDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    PassManager passes(&context);
    buildTrainPipeline(passes, {adamw});
    EXPECT_TRUE(module && succeeded(passes.run(*module)));
  }

  bool partition(int zero = 0) {
    PassManager passes(&context);
    ShardStateOptions state;
    state.zero = zero;
    passes.addPass(createShardState(state));
    buildPartitionPipeline(passes);
    bool ok = succeeded(passes.run(*module));
    if (std::getenv("DUMP"))
      module->print(llvm::errs(), OpPrintingFlags().enableDebugInfo(true).useLocalScope());
    return ok;
  }
};

// Returns the number of collectives that ran.
int64_t check(const std::string &text, const Layout &layout, int64_t vocabulary,
              const std::string &what, std::mt19937 *random = nullptr, bool adamw = true,
              int zero = 0) {
  Model model(text, adamw);
  StepInput input = drawInput(*model.module, 2, vocabulary);
  auto expected = parallel::evaluateStep(*model.module, input);
  OwningOpRef<ModuleOp> before = model.module->clone();
  annotate(*model.module, layout, random);
  if (failed(expected) || !model.partition(zero)) {
    ADD_FAILURE() << what + " does not compile";
    return 0;
  }
  auto got = parallel::evaluateStep(*model.module, input);
  EXPECT_TRUE(succeeded(got)) << what + " does not run";
  if (failed(got))
    return 0;
  expectClose(*got, *expected, *before, what);
  return got->collectives;
}

std::string name(const Layout &l) {
  return std::to_string(l.dp) + "x" + std::to_string(l.pp) + "x" + std::to_string(l.tp);
}

} // namespace

TEST(Step, OneRankNeedsNoCollective) {
  Layout layout;
  layout.states = tensorCuts();
  EXPECT_EQ(check(decoder(2, 2), layout, kVocabulary, "one rank"), 0);
}

TEST(Step, TensorCuts) {
  for (int64_t tp : {2, 4})
    for (int64_t vocabulary : {16, 257}) {
      Layout layout{1, 1, tp, {}, tensorCuts()};
      DecoderShape shape{16, 24, 4, vocabulary};
      EXPECT_TRUE(check(decoder(2, 2, shape), layout, vocabulary,
                        name(layout) + ", vocabulary " + std::to_string(vocabulary)) > 0);
    }
}

TEST(Step, DataCuts) {
  for (int64_t dp : {2, 4}) {
    Layout layout{dp, 1, 1, {}, {}};
    EXPECT_TRUE(check(decoder(4, 2), layout, kVocabulary, name(layout)) > 0);
  }
}

TEST(Step, StagesEvenAndUneven) {
  for (std::vector<int64_t> layers : {std::vector<int64_t>{1, 2}, {2, 1}, {1, 1, 1}, {3, 1, 2}}) {
    Layout layout{1, static_cast<int64_t>(layers.size()), 1, layers, {}};
    int64_t count = 0;
    for (int64_t n : layers)
      count += n;
    EXPECT_TRUE(check(decoder(2, count), layout, kVocabulary, name(layout)) > 0);
  }
}

TEST(Step, AllAxesTogether) {
  for (bool adamw : {true, false}) {
    Layout layout{2, 2, 2, {2, 1}, tensorCuts()};
    EXPECT_TRUE(check(decoder(4, 3, {8, 12, 2, 17}), layout, 17, name(layout), nullptr, adamw) > 0);
  }
  Layout layout{2, 3, 4, {1, 2, 1}, tensorCuts()};
  EXPECT_TRUE(check(decoder(2, 4, {16, 24, 4, 11}), layout, 11, name(layout)) > 0);
}

// Any annotation that agrees with the rules is right, however foolish.
TEST(Step, RandomAnnotations) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    Layout layout{2, 1, 2, {}, {}};
    if (seed % 3 == 1)
      layout = {2, 2, 2, {1, 1}, {}};
    check(decoder(4, 2, {8, 12, 2, 12}), layout, 12, "seed " + std::to_string(seed), &random);
  }
}

// Sharing states out among data-parallel ranks changes nothing: 257 words over two tensor ranks, layers over
// two stages, a group of three that divides no bucket.
TEST(Step, FlatStates) {
  for (int zero : {1, 2, 3})
    for (bool adamw : {true, false}) {
      Layout two{2, 2, 2, {2, 1}, tensorCuts()}, three{3, 1, 2, {}, tensorCuts()};
      for (const Layout &layout : {two, three})
        EXPECT_TRUE(check(decoder(2 * layout.dp, 3, {8, 12, 2, 257}), layout, 257,
                          name(layout) + ", zero " + std::to_string(zero), nullptr, adamw, zero) > 0);
    }
  for (unsigned seed = 0; seed < 9; ++seed) {
    std::mt19937 random(100 + seed);
    int zero = 1 + seed % 3;
    check(decoder(4, 2, {8, 12, 2, 12}), {2, 2, 2, {1, 1}, {}}, 12,
          "zero " + std::to_string(zero) + ", seed " + std::to_string(seed), &random, true, zero);
    check(oddRepeats(), {2, 1, 2, {}, {}}, kVocabulary, "odd, zero, seed " + std::to_string(seed),
          &random, true, zero);
  }
}

// Nested and reversed repeats, captured and carried parameters.
TEST(Step, RandomAnnotationsOfOddRepeats) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    check(oddRepeats(), {2, 1, 2, {}, {}}, kVocabulary, "odd, seed " + std::to_string(seed), &random);
  }
}

//===-- That the checks above can fail ------------------------------------------===//

namespace {
bool isRight(ModuleOp module, const StepInput &input, const StepOutput &expected) {
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
  auto got = parallel::evaluateStep(module, input);
  if (failed(got) || !(got->maxReplicaDifference <= 1e-11))
    return false;
  for (auto &[name, value] : got->outputs)
    if (!(std::abs(value.data[0] - expected.outputs.at(name).data[0]) <= 1e-9))
      return false;
  for (auto state : module.getOps<graph::StateOp>()) {
    std::string name = state.getSymName().str();
    bool isSum = state.getRole() == graph::Role::accumulator && !state.getOf();
    if (!isSum && !(l2(got->states.at(name), &expected.states.at(name)) <= 1e-9))
      return false;
  }
  return true;
}
} // namespace

TEST(Step, EveryCollectiveAndMaskMatters) {
  Layout layout{2, 2, 2, {1, 1}, tensorCuts()};
  Model model(decoder(4, 2, {8, 12, 2, 17}));
  StepInput input = drawInput(*model.module, 2, 17);
  auto expected = parallel::evaluateStep(*model.module, input);
  annotate(*model.module, layout);
  EXPECT_TRUE(model.partition() && succeeded(expected));
  EXPECT_TRUE(isRight(*model.module, input, *expected));
  SmallVector<Operation *> mutants;
  model.module->walk([&](Operation *op) {
    if (isa<parallel::AllReduceOp, graph::MaskTailOp>(op))
      mutants.push_back(op);
  });
  EXPECT_TRUE(mutants.size() > 40);
  // Attention does not see a bias of its keys: there is nothing to reduce.
  EXPECT_TRUE(l2(expected->states.at("bk.grad")) < 1e-12);
  for (Operation *op : mutants) {
    auto origin = op->getAttrOfType<DictionaryAttr>("parallel.origin");
    if (origin && origin.getAs<StringAttr>("node").getValue() == "src.bk")
      continue;
    // Its users read the operand instead.
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getResult(0).getUses())
      uses.push_back(&use);
    for (OpOperand *use : uses)
      use->set(op->getOperand(0));
    std::string text = parallel::getNodeName(op->getLoc()).str();
    EXPECT_FALSE(isRight(*model.module, input, *expected))
        << op->getName().getStringRef().str() + " at " + text + " in " +
               op->getParentOfType<func::FuncOp>().getSymName().str() + " can be left out";
    for (OpOperand *use : uses)
      use->set(op->getResult(0));
  }
}

//===-- What is sent --------------------------------------------------------------===//

namespace {
// Bytes of all-reduces over one axis list, by function.
std::vector<int64_t> reducedBytes(Operation *root, StringRef axis, bool inLayers) {
  std::vector<int64_t> bytes;
  root->walk([&](parallel::AllReduceOp op) {
    bool inside = op->getParentOfType<graph::RepeatOp>() != nullptr;
    if (inside == inLayers && op.getAxes().size() == 1 &&
        cast<StringAttr>(op.getAxes()[0]).getValue() == axis)
      bytes.push_back(4 * op.getType().getNumElements());
  });
  return bytes;
}
std::string show(const std::vector<int64_t> &list) {
  std::string text;
  for (int64_t n : list)
    text += (text.empty() ? "" : " ") + std::to_string(n);
  return text;
}
} // namespace

TEST(Step, ReductionsOfTensorCutsAreCounted) {
  Layout layout{1, 1, 2, {}, tensorCuts()};
  Model model(decoder(2, 3, {8, 12, 2, 17}));
  annotate(*model.module, layout);
  EXPECT_TRUE(model.partition());
  int64_t rows = 4 * 2 * kSequence, full = rows * 8;
  auto forward = model.module->lookupSymbol<func::FuncOp>("forward_0");
  auto backward = model.module->lookupSymbol<func::FuncOp>("backward_0");
  // Behind attention and behind the MLP; before q, k, v and before the MLP.
  EXPECT_EQ(show(reducedBytes(forward, "tp", true)), show({full, full}));
  EXPECT_EQ(show(reducedBytes(backward, "tp", true)), show({full, full}));
  // The embedding; the maximum, the sum and the picked logits; the head's input.
  EXPECT_EQ(show(reducedBytes(forward, "tp", false)), show({full, rows, rows, rows}));
  EXPECT_EQ(show(reducedBytes(backward, "tp", false)), show({full}));
  int64_t others = 0;
  model.module->walk([&](Operation *op) {
    others += isa<parallel::AllGatherOp, parallel::ReduceScatterOp, parallel::AllSliceOp>(op);
  });
  EXPECT_EQ(others, 0);
}

TEST(Step, GradientsAreReducedOnceAStep) {
  Layout layout{2, 1, 1, {}, {}};
  Model model(decoder(4, 2));
  annotate(*model.module, layout);
  EXPECT_TRUE(model.partition());
  for (const char *name : {"forward_0", "backward_0"})
    EXPECT_EQ(reducedBytes(model.module->lookupSymbol(name), "dp", true).size() +
                  reducedBytes(model.module->lookupSymbol(name), "dp", false).size(), 0u);
  auto update = model.module->lookupSymbol<func::FuncOp>("update_0");
  int64_t elements = 0; // the step's own sums run over ["dp", "pp"]
  for (auto state : model.module->getOps<graph::StateOp>())
    if (state.getRole() == graph::Role::parameter)
      elements += cast<RankedTensorType>(state.getType()).getNumElements();
  int64_t bytes = 0;
  for (int64_t n : reducedBytes(update, "dp", false))
    bytes += n;
  EXPECT_EQ(bytes, 4 * elements);
  int64_t sums = 0;
  update.walk([&](parallel::AllReduceOp op) {
    EXPECT_TRUE(isa<BlockArgument>(op.getOperand()));
    sums += op.getAxes().size() == 2 && op.getType().getRank() == 0;
  });
  EXPECT_EQ(sums, 2); // loss and token count
}

TEST(Step, BordersCarryOneActivation) {
  Layout layout{1, 3, 1, {1, 2, 1}, {}};
  Model model(decoder(2, 4));
  annotate(*model.module, layout);
  EXPECT_TRUE(model.partition());
  for (auto func : model.module->getOps<func::FuncOp>()) {
    int64_t sent = 0, received = 0, stage = func->getAttrOfType<IntegerAttr>("parallel.stage").getInt();
    bool forward = func.getSymName().starts_with("forward");
    if (func.getSymName().starts_with("update"))
      continue;
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      sent += bool(func.getResultAttr(i, "parallel.boundary"));
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      received += bool(func.getArgAttr(i, "parallel.boundary"));
    EXPECT_EQ(sent, stage != (forward ? 2 : 0));
    EXPECT_EQ(received, stage != (forward ? 0 : 2));
  }
}
