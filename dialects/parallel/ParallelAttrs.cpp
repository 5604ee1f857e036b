// Verifies the discardable attributes of the parallel dialect (Annotations.h names them).
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::OnArgument;
using graph::OnModule;
using graph::OnOp;
using graph::OnResult;

template <class T> static bool isA(Attribute attribute) { return isa<T>(attribute); }

template <class T> static bool isListOf(Attribute attribute) {
  auto list = dyn_cast<ArrayAttr>(attribute);
  return list && llvm::all_of(list, llvm::IsaPred<T>);
}

static bool isListOfCounts(Attribute attribute) {
  return isa<DenseI64ArrayAttr>(attribute) || isListOf<IntegerAttr>(attribute);
}

static bool isProcedure(Attribute attribute) {
  auto name = dyn_cast<StringAttr>(attribute);
  return name && (name == "forward" || name == "backward" || name == "update");
}

static constexpr graph::DiscardableAttribute kTable[] = {
    {kMesh, OnModule, "a #parallel.mesh", isA<MeshAttr>},
    {kTactics, OnModule, "a dictionary", isA<DictionaryAttr>},
    {kOps, OnModule, "a list", isA<ArrayAttr>},
    {kStageLayers, OnModule, "an array of i64", isListOfCounts},
    {kIn, OnOp, "a list of #parallel.sharding", isListOf<ShardingAttr>},
    {kOut, OnOp, "a list of #parallel.sharding", isListOf<ShardingAttr>},
    {kArgs, OnOp, "a list of #parallel.sharding", isListOf<ShardingAttr>},
    {kSharding, OnOp | OnArgument | OnResult, "a #parallel.sharding", isA<ShardingAttr>},
    {kOrigin, OnOp | OnArgument, "a dictionary", isA<DictionaryAttr>},
    {kStage, OnOp, "an integer", isA<IntegerAttr>},
    {kStages, OnOp, "a list of integers", isListOfCounts},
    {kLayers, OnOp | OnArgument | OnResult, "an array of i64", isListOfCounts},
    {kStageBoundary, OnArgument | OnResult, "an integer", isA<IntegerAttr>},
    {kResidual, OnArgument | OnResult, "an integer", isA<IntegerAttr>},
    {kKeepIndexedDim, OnOp, "a unit attribute", isA<UnitAttr>},
    {kChunk, OnOp, "an integer", isA<IntegerAttr>},
    {kProcedure, OnOp, "\"forward\", \"backward\" or \"update\"", isProcedure},
    {kValidShape, OnArgument | OnResult, "an array of i64", isA<DenseI64ArrayAttr>},
};

LogicalResult ParallelDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return graph::verifyDiscardable(op, attribute, isa<ModuleOp>(op) ? OnModule : OnOp, kTable);
}

LogicalResult ParallelDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned,
                                                        NamedAttribute attribute) {
  return graph::verifyDiscardable(op, attribute, OnArgument, kTable);
}

LogicalResult ParallelDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                                           NamedAttribute attribute) {
  return graph::verifyDiscardable(op, attribute, OnResult, kTable);
}
