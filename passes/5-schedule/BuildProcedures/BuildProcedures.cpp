// Turns the functions of a stage into procedures over buffers.
//
// Each function takes three steps: allocations of arguments and results (Bindings.cpp), allocations
// of all other values (BufferAssignment.cpp), then one instruction per op (Instructions.cpp).
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "passes/5-schedule/Passes.h"

#include "passes/5-schedule/BuildProcedures/StageBuilder.h"

#include <numeric>

namespace llmc {
#define GEN_PASS_DEF_BUILDPROCEDURES
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;

plan::ProcedureOp StageBuilder::newProcedure(Location loc, StringRef name,
                                             plan::ProcedureKind kind) {
  b.setInsertionPointToEnd(&stageOp.getBody().front());
  auto procedure =
      plan::ProcedureOp::create(b, loc, getProcedureName(name, chunk), kind,
                                chunk ? b.getI64IntegerAttr(chunk) : IntegerAttr(),
                                chunk ? b.getDenseI64ArrayAttr({chunk}) : DenseI64ArrayAttr());
  if (!firstProcedure)
    firstProcedure = procedure;
  b.setInsertionPointToStart(b.createBlock(&procedure.getBody()));
  return procedure;
}

LogicalResult StageBuilder::buildProcedure(func::FuncOp func, plan::ProcedureKind kind) {
  AssignmentInputs known;
  if (failed(bindArguments(func, known)) || failed(bindResults(func, known)))
    return failure();
  Bindings returned = known.returned;
  BufferAssignment planned(func, roots, std::move(known));
  places = &planned;
  newProcedure(func.getLoc(), plan::stringifyProcedureKind(kind), kind);
  buildPrologue(func, kind);
  for (Operation &op : func.getBody().front().without_terminator())
    if (failed(buildOp(op)))
      return failure();
  buildEpilogue(func, kind, returned);
  places = nullptr;
  return success();
}

LogicalResult StageBuilder::buildChunk(int64_t index) {
  chunk = index;
  ChunkFunctions &parts = functions.chunks[index];
  if (failed(buildProcedure(parts.forward, plan::ProcedureKind::forward)))
    return failure();
  if (parts.backward && failed(buildProcedure(parts.backward, plan::ProcedureKind::backward)))
    return failure();
  if (parts.weight && failed(buildProcedure(parts.weight, plan::ProcedureKind::weight)))
    return failure();
  chunk = 0;
  return success();
}

// Builds the procedure that zeroes the accumulators at the start of a step, but for those that the
// update alone writes.
void StageBuilder::buildBegin() {
  newProcedure(module.getLoc(), "begin", plan::ProcedureKind::begin);
  for (auto &[state, root] : stateRoots)
    if (taken.contains(root) &&
        symbols.lookup<graph::StateOp>(state.first).getRole() == graph::Role::accumulator)
      plan::FillOp::create(b, module.getLoc(), buffer({root, 0}, roots[root].type),
                           b.getI64IntegerAttr(kCompute),
                           plan::OriginAttr::get(b.getContext(), "zero accumulators", {}, "", ""));
}

// Records the layers of each chunk. With several repeats, or groups of layers, only the module
// knows them all. Chunk c of stage s is the virtual stage c * stages + s.
void StageBuilder::setLayers() {
  auto counts = module->getAttrOfType<DenseI64ArrayAttr>(parallel::kStageLayers);
  for (int64_t c = 0; counts && c < static_cast<int64_t>(chunks.size()); ++c) {
    int64_t virtualStage = c * stages + stage;
    ArrayRef<int64_t> before = counts.asArrayRef().take_front(virtualStage);
    int64_t first = std::accumulate(before.begin(), before.end(), int64_t(0));
    layers[c] = plan::ChunkAttr::get(b.getContext(), first, first + counts[virtualStage] - 1);
  }
  // Layers that were not folded cannot be divided: the single stage has them all.
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  auto count = model ? model.getAs<IntegerAttr>("layers") : IntegerAttr();
  auto first = cast<plan::ChunkAttr>(layers[0]);
  if (count && first.getLastLayer() < first.getFirstLayer() && stages == 1 && chunks.size() == 1)
    layers[0] = plan::ChunkAttr::get(b.getContext(), first.getFirstLayer(),
                                     first.getFirstLayer() + count.getInt() - 1);
  stageOp.setChunksAttr(b.getArrayAttr(layers));
}

LogicalResult StageBuilder::run() {
  chunks.resize(functions.chunks.size());
  layers.assign(chunks.size(), plan::ChunkAttr::get(b.getContext(), 0, -1));
  SmallVector<Attribute> pools;
  for (size_t c = 0; c < chunks.size(); ++c)
    pools.push_back(plan::PoolAttr::get(b.getContext(), c, 1));
  b.setInsertionPointToEnd(module.getBody());
  stageOp = plan::StageOp::create(b, module.getLoc(), "stage" + std::to_string(stage), stage,
                                  b.getArrayAttr(layers), b.getArrayAttr(pools),
                                  b.getArrayAttr({}), IntegerAttr());
  b.createBlock(&stageOp.getBody());
  allocateEvents();
  for (int64_t c = 0; c < static_cast<int64_t>(chunks.size()); ++c)
    if (failed(buildChunk(c)))
      return failure();
  if (functions.update) {
    if (failed(buildProcedure(functions.update, plan::ProcedureKind::update)))
      return failure();
    buildBegin();
  } else {
    bindUnused();
  }
  setLayers();
  return success();
}

namespace {

struct BuildProcedures : impl::BuildProceduresBase<BuildProcedures> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module->getAttrOfType<parallel::MeshAttr>(parallel::kMesh)) {
      module.emitError("has no parallel.mesh");
      return signalPassFailure();
    }
    SymbolTable symbols(module);
    std::map<int64_t, StageFunctions> stages = collect(module);
    for (auto &[stage, functions] : stages) {
      if (failed(check(module, stage, functions)))
        return signalPassFailure();
      StageBuilder builder(module, symbols, stage, functions);
      if (failed(builder.run()))
        return signalPassFailure();
      numLaunches += builder.launches;
      numCopies += builder.copies;
      for (ChunkFunctions &chunk : functions.chunks)
        for (func::FuncOp func : {chunk.forward, chunk.backward, chunk.weight})
          if (func)
            func.erase();
      if (functions.update)
        functions.update.erase();
    }
  }

  static std::map<int64_t, StageFunctions> collect(ModuleOp module) {
    std::map<int64_t, StageFunctions> stages;
    for (auto func : module.getOps<func::FuncOp>()) {
      auto stage = func->getAttrOfType<IntegerAttr>(parallel::kStage);
      auto kind = func->getAttrOfType<StringAttr>(parallel::kProcedure);
      auto chunk = func->getAttrOfType<IntegerAttr>(parallel::kChunk);
      if (!stage || !kind)
        continue;
      StageFunctions &functions = stages[stage.getInt()];
      if (kind == "update") {
        functions.update = func;
        continue;
      }
      size_t index = chunk ? chunk.getInt() : 0;
      if (functions.chunks.size() <= index)
        functions.chunks.resize(index + 1);
      ChunkFunctions &parts = functions.chunks[index];
      (kind == "forward" ? parts.forward : kind == "backward" ? parts.backward : parts.weight) = func;
    }
    return stages;
  }

  static LogicalResult check(ModuleOp module, int64_t stage, const StageFunctions &functions) {
    bool infer = parallel::isInference(module);
    bool whole = !functions.chunks.empty() && (infer || functions.update);
    for (const ChunkFunctions &chunk : functions.chunks)
      whole &= chunk.forward && (infer || chunk.backward);
    if (whole)
      return success();
    return module.emitError("stage ")
           << stage << (infer ? " lacks a forward function"
                              : " lacks a forward, backward or update function");
  }
};

} // namespace
} // namespace llmc
