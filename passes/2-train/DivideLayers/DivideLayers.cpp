// Divides the layers of a model over the virtual stages of a pipeline.
#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/WantedStages.h"
#include "passes/2-train/DivideLayers/Costs.h"
#include "passes/2-train/DivideLayers/CutRepeat.h"
#include "passes/2-train/Passes.h"

#include "llvm/Support/InterleavedRange.h"
#include <numeric>

namespace llmc {
#define GEN_PASS_DEF_DIVIDELAYERS
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::stages;

namespace {

struct DivideLayers : llmc::impl::DivideLayersBase<DivideLayers> {
  using DivideLayersBase::DivideLayersBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (stages < 0 || chunks < 1) {
      getOperation().emitError("a pipeline has at least one stage of one chunk, got ")
          << stages.getValue() << " of " << chunks.getValue();
      return signalPassFailure();
    }
    parallel::MeshAttr mesh = parallel::getMesh(getOperation());
    pp = stages ? int64_t(stages) : mesh ? mesh.getSize(planfile::AxisRole::Stages) : 1;
    if (!forward || forward.isExternal() || (pp * chunks == 1 && layers.empty()))
      return;
    if (failed(checkRepeats(forward)))
      return signalPassFailure();
    std::vector<RepeatLayers> repeats;
    for (auto op : forward.getBody().front().getOps<graph::RepeatOp>())
      repeats.emplace_back(op);
    if (repeats.empty())
      return; // tactic stages says that there are no layers to divide
    FailureOr<std::vector<int64_t>> counts = divide(forward, repeats);
    if (failed(counts) || failed(checkCuts(repeats, *counts)) || failed(cut(repeats, *counts)))
      return signalPassFailure();
    getOperation()->setAttr(parallel::kStageLayers, DenseI64ArrayAttr::get(&getContext(), *counts));
  }

private:
  int64_t pp = 1; // stages of the pipeline

  std::string stagesText() const {
    return chunks == 1 ? "pp = " + std::to_string(pp) + " stages"
                       : "pp = " + std::to_string(pp) + " x " + std::to_string(chunks) + " = " +
                             std::to_string(pp * chunks) + " virtual stages";
  }

  LogicalResult checkRepeats(func::FuncOp forward);
  FailureOr<std::vector<int64_t>> divide(func::FuncOp forward, ArrayRef<RepeatLayers> repeats);
  LogicalResult checkGiven(func::FuncOp forward, int64_t all);
  FailureOr<std::vector<int64_t>> divideAsWanted(ArrayRef<RepeatLayers> repeats);
  LogicalResult checkCuts(ArrayRef<RepeatLayers> repeats, ArrayRef<int64_t> counts);
  LogicalResult cut(ArrayRef<RepeatLayers> repeats, ArrayRef<int64_t> counts);
};

// Limits the layers: balance() looks at pairs of them.
constexpr int64_t kMostLayers = 10000;

} // namespace

// Checks that there are not too many layers, and that they run from the first to the last.
LogicalResult DivideLayers::checkRepeats(func::FuncOp forward) {
  int64_t all = 0;
  for (auto op : forward.getBody().front().getOps<graph::RepeatOp>()) {
    if (op.getReverse())
      return op.emitError("D3: runs its layers from the last to the first, and stages follow each other in the "
                          "order of the layers; use pp = 1");
    int64_t inBody = graph::layersInBody(op);
    if (int64_t(op.getCount()) > kMostLayers || (all += int64_t(op.getCount()) * inBody) > kMostLayers)
      return op.emitError("D1: stages divide at most ") << kMostLayers << " layers, and there are more";
  }
  return success();
}

LogicalResult DivideLayers::checkGiven(func::FuncOp forward, int64_t all) {
  ArrayRef<int64_t> given(layers);
  auto refuse = [&](const Twine &why) {
    return forward.emitError("D2: the layers of the stages, ") << llvm::interleaved(given) << ", " << why;
  };
  if (int64_t(given.size()) != pp * chunks)
    return refuse("are " + Twine(given.size()) + " numbers, and there are " + stagesText());
  int64_t sum = 0;
  for (auto [k, count] : llvm::enumerate(given)) {
    if (count < 0 || count > all)
      return refuse("are each from 0 to the " + Twine(all) + " layers of the model");
    if (count == 0 && k > 0 && k + 1 < given.size())
      return refuse("have none on stage " + Twine(k) + ": only the first (an embedding alone) and the last (a head alone) may have none");
    sum += count;
  }
  if (sum != all)
    return refuse("sum to " + Twine(sum) + ", and the model has " + Twine(all) + ": give numbers with this sum, or auto");
  return success();
}

// Returns the layers of each stage that the model's file asks for; none if it does not ask.
FailureOr<std::vector<int64_t>> DivideLayers::divideAsWanted(ArrayRef<RepeatLayers> repeats) {
  SmallVector<graph::RepeatOp> ops;
  SmallVector<int64_t> layersOfGroup;
  for (const RepeatLayers &one : repeats) {
    ops.push_back(one.op);
    layersOfGroup.append(ops.back().getCount(), one.inBody);
  }
  auto groups = parallel::readWantedGroups(ops, pp);
  if (failed(groups))
    return failure();
  if (!groups->empty() && chunks > 1)
    return ops.front().emitError("D2: the model's annotations give its layers to stages, and not to ")
           << chunks.getValue() << " chunks of each; use --virtual-stages 1, or --stages";
  std::vector<int64_t> counts;
  ArrayRef<int64_t> rest(layersOfGroup);
  for (int64_t count : *groups) {
    counts.push_back(std::accumulate(rest.begin(), rest.begin() + count, int64_t(0)));
    rest = rest.drop_front(count);
  }
  return counts;
}

FailureOr<std::vector<int64_t>> DivideLayers::divide(func::FuncOp forward, ArrayRef<RepeatLayers> repeats) {
  LayerCosts costs = costsOf(forward);
  int64_t all = costs.layers.size();
  if (!layers.empty()) {
    if (failed(checkGiven(forward, all)))
      return failure();
    return std::vector<int64_t>(layers.begin(), layers.end());
  }
  FailureOr<std::vector<int64_t>> wanted = divideAsWanted(repeats);
  if (failed(wanted) || !wanted->empty())
    return wanted;
  std::optional<std::vector<int64_t>> best = balance(costs, pp * chunks);
  if (best)
    return *best;
  int64_t groups = llvm::count(costs.mayBegin, true);
  return forward.emitError("D1: ") << stagesText() << " for " << groups << (groups == all ? " layer" : " group")
                                 << (groups == 1 ? "" : "s") << (groups == all ? "" : " of layers")
                                 << ": all but the first and the last need one, so pp x virtual stages is at most "
                                 << groups + 2;
}

// Checks D3: every stage begins where a body can be cut.
LogicalResult DivideLayers::checkCuts(ArrayRef<RepeatLayers> repeats, ArrayRef<int64_t> counts) {
  int64_t bound = 0;
  for (auto [k, count] : llvm::enumerate(counts.drop_back())) {
    bound += count;
    int64_t first = 0;
    for (const RepeatLayers &one : repeats) {
      int64_t begin = first, at = bound - first;
      first += one.count();
      if (at <= 0 || at >= one.count() || one.mayBegin(at))
        continue;
      int64_t group = begin + at / one.inBody * one.inBody;
      return graph::RepeatOp(one.op).emitError("D3: stage ")
             << k + 1 << " begins with layer " << bound << ", inside of layers " << group << " to "
             << group + one.inBody - 1 << ", which exchange more than they pass on; the nearest layers that a stage may "
             << "begin with are " << group << " and " << group + one.inBody;
    }
  }
  return success();
}

// Cuts the repeats where a stage or a chunk needs it. Checks D4: nobody else reads their states.
LogicalResult DivideLayers::cut(ArrayRef<RepeatLayers> repeats, ArrayRef<int64_t> counts) {
  std::set<int64_t> bounds, chunkBounds;
  int64_t bound = 0;
  for (auto [k, count] : llvm::enumerate(counts)) {
    if (k > 0)
      (k % pp == 0 ? chunkBounds : bounds).insert(bound);
    bound += count;
  }
  auto from = [](const std::set<int64_t> &all, int64_t first) {
    std::set<int64_t> moved;
    for (int64_t one : all)
      moved.insert(one - first);
    return moved;
  };
  int64_t first = 0;
  for (const RepeatLayers &one : repeats) {
    int64_t count = one.count(); // the repeat is gone when it is cut
    std::set<int64_t> soft = from(bounds, first), hard = from(chunkBounds, first);
    if (graph::StateOp state = needsCut(one, soft, hard) ? one.sharedState() : graph::StateOp())
      return graph::RepeatOp(one.op).emitError("D4: a stage begins inside of these layers, whose weights (")
             << state.getSymName() << ") others read too, so that they cannot be cut; use pp = 1 or --schedule 1f1b";
    int64_t parts = cutRepeat(one, soft, hard);
    numCuts += parts > 1 ? parts : 0;
    first += count;
  }
  return success();
}
