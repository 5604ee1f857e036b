// Verifies the discardable attributes of the parallel dialect (Annotations.h names them).
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

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

// Accepts numbers that serve as keys of maps, which reserve the extreme ones.
static bool isNumber(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getValue().getSignificantBits() <= 32 && number.getInt() >= 0;
}

static bool isShare(Attribute attribute) {
  auto share = dyn_cast<FloatAttr>(attribute);
  return share && share.getValueAsDouble() >= 0 && share.getValueAsDouble() <= 1;
}

static bool isProcedure(Attribute attribute) {
  auto name = dyn_cast<StringAttr>(attribute);
  return name && (name == "forward" || name == "backward" || name == "weight" || name == "update");
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
    {kFlat, OnArgument | OnResult, "a #parallel.flat", isA<FlatAttr>},
    {kFlatAxes, OnOp, "a list of strings", isListOf<StringAttr>},
    {kStageBoundary, OnArgument | OnResult, "a number from 0", isNumber},
    {kResidual, OnArgument | OnResult, "a number from 0", isNumber},
    {kKeepIndexedDim, OnOp, "a unit attribute", isA<UnitAttr>},
    {kVisible, OnOp, "a number from 0 to 1", isShare},
    {kChunk, OnOp, "an integer", isA<IntegerAttr>},
    {kProcedure, OnOp, "\"forward\", \"backward\", \"weight\" or \"update\"", isProcedure},
    {kValidShape, OnArgument | OnResult, "an array of i64", isA<DenseI64ArrayAttr>},
};

// Checks that a sharding fits the rank of the value that it describes, and that the layers of a
// part of a state are a first one and a count.
static LogicalResult verifyOfValue(Operation *op, NamedAttribute attribute, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (auto sharding = dyn_cast<ShardingAttr>(attribute.getValue());
      attribute.getName() == kSharding && tensor &&
      static_cast<int64_t>(sharding.getDims().size()) != tensor.getRank())
    return op->emitError() << "'" << kSharding << "' of " << tensor << " has "
                           << sharding.getDims().size() << " dims, got " << sharding;
  if (attribute.getName() != kLayers)
    return success();
  auto layers = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
  if (!layers || layers.size() != 2 || layers[0] < 0 || layers[1] < 1)
    return op->emitError() << "'" << kLayers << "' of a part of a state are [first, count], got "
                           << attribute.getValue();
  return success();
}

LogicalResult ParallelDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (failed(graph::verifyDiscardable(op, attribute, isa<ModuleOp>(op) ? OnModule : OnOp, kTable)))
    return failure();
  if (auto state = dyn_cast<graph::StateOp>(op))
    return verifyOfValue(op, attribute, state.getType());
  bool isOfRoutes = isa<graph::RouteOp, graph::LimitRoutesOp>(op) && attribute.getName() == kSharding;
  return isOfRoutes ? verifyOfValue(op, attribute, op->getResult(0).getType()) : success();
}

LogicalResult ParallelDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index,
                                                        NamedAttribute attribute) {
  if (failed(graph::verifyDiscardable(op, attribute, OnArgument, kTable)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  return function ? verifyOfValue(op, attribute, function.getArgumentTypes()[index]) : success();
}

LogicalResult ParallelDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned index,
                                                           NamedAttribute attribute) {
  if (failed(graph::verifyDiscardable(op, attribute, OnResult, kTable)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  return function ? verifyOfValue(op, attribute, function.getResultTypes()[index]) : success();
}
