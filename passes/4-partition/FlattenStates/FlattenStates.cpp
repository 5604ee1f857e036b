// Lays the states of each stage that data-parallel ranks share out side by side.
#include "passes/4-partition/Passes.h"

#include "passes/4-partition/FlattenStates/Flatten.h"
#include "passes/4-partition/SplitStages/SplitStages.h"

namespace llmc {
#define GEN_PASS_DEF_FLATTENSTATES
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::flat;
using namespace llmc::parallel;

namespace {

struct FlattenStates : llmc::impl::FlattenStatesBase<FlattenStates> {
  void runOnOperation() override;

private:
  graph::StateOp makeSum(const Bucket &bucket, int64_t stage, size_t number);
  LogicalResult flatten(StageFunctions &functions);
};

} // namespace

static std::map<int64_t, StageFunctions> stagesOf(ModuleOp module) {
  std::map<int64_t, StageFunctions> stages;
  for (auto func : module.getOps<func::FuncOp>()) {
    auto stage = func->getAttrOfType<IntegerAttr>(kStage);
    auto procedure = func->getAttrOfType<StringAttr>(kProcedure);
    if (!stage || !procedure)
      continue;
    StageFunctions &functions = stages[stage.getInt()];
    functions.stage = stage.getInt();
    if (procedure == "update")
      functions.update = func;
    else
      (procedure == "forward" ? functions.forwards : functions.backwards).push_back(func);
  }
  return stages;
}

// Declares the sum of a step's gradients of a bucket, of which each rank has its own part.
graph::StateOp FlattenStates::makeSum(const Bucket &bucket, int64_t stage, size_t number) {
  graph::StateOp last = Bucket::stateOf(bucket.tensors.back(), graph::Role::accumulator);
  Type element = cast<RankedTensorType>(last.getType()).getElementType();
  OpBuilder builder(last);
  builder.setInsertionPointAfter(last);
  auto sum = graph::StateOp::create(
      builder, bucket.location, ("bucket" + Twine(stage) + "." + Twine(number) + ".sum").str(),
      bucket.typeOf(element, /*isWhole=*/true), graph::Role::accumulator, FlatSymbolRefAttr(),
      /*views=*/ArrayAttr(), /*stacked=*/false, /*valid_shape=*/ArrayAttr());
  sum->setAttr(kStages, builder.getI64ArrayAttr({stage}));
  return sum;
}

LogicalResult FlattenStates::flatten(StageFunctions &functions) {
  auto buckets = collectBuckets(getOperation(), functions);
  if (failed(buckets))
    return failure();
  Norms norms;
  SmallVector<Value> zeros;
  for (auto [number, bucket] : llvm::enumerate(*buckets)) {
    graph::StateOp sum =
        bucket.zero == 1 ? makeSum(bucket, functions.stage, number) : graph::StateOp();
    flattenUpdate(functions.update, bucket, sum, norms, zeros);
    for (const auto &chunks : {functions.forwards, functions.backwards})
      for (func::FuncOp func : chunks)
        if (failed(flattenWeights(func, bucket)))
          return failure();
    for (func::FuncOp func : functions.backwards)
      if (failed(flattenGradients(func, bucket, sum)))
        return failure();
    ++numBuckets;
    numTensors += bucket.tensors.size();
  }
  if (!buckets->empty())
    sumNorms(functions.update, norms, zeros);
  SmallVector<func::FuncOp> all = {functions.update};
  llvm::append_range(all, functions.forwards);
  llvm::append_range(all, functions.backwards);
  for (func::FuncOp func : all) {
    removeDeadOps(func);
    removeUnusedArguments(func);
  }
  return success();
}

void FlattenStates::runOnOperation() {
  ModuleOp module = getOperation();
  bool isMarked = llvm::any_of(module.getOps<graph::StateOp>(),
                               [](graph::StateOp state) { return state->hasAttr(kFlatAxes); });
  if (!isMarked || isInference(module))
    return;
  for (auto &[stage, functions] : stagesOf(module)) {
    if (functions.forwards.empty() || functions.backwards.empty() || !functions.update) {
      module.emitError("stage ") << stage << " lacks a forward, backward or update function";
      return signalPassFailure();
    }
    if (failed(flatten(functions)))
      return signalPassFailure();
  }
}
