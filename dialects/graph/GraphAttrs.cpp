#include "dialects/graph/GraphAttrs.h"

#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace llmc::graph;

template <class T> static bool isA(Attribute attribute) { return isa<T>(attribute); }

template <class T> static bool isListOf(Attribute attribute) {
  auto list = dyn_cast<ArrayAttr>(attribute);
  return list && llvm::all_of(list, llvm::IsaPred<T>);
}

static bool isMode(Attribute attribute) {
  auto mode = dyn_cast<StringAttr>(attribute);
  return mode && mode.getValue() == "infer";
}

static bool isPositive(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getValue().isStrictlyPositive();
}

static bool isRate(Attribute attribute) {
  auto number = dyn_cast<FloatAttr>(attribute);
  return number && number.getValueAsDouble() > 0;
}

static constexpr DiscardableAttribute kTable[] = {
    {kModel, OnModule, "a dictionary", isA<DictionaryAttr>},
    {kFiles, OnModule, "a list of dictionaries", isListOf<DictionaryAttr>},
    {kConstants, OnModule, "a list of strings", isListOf<StringAttr>},
    {kBatch, OnModule, "a positive integer", isPositive},
    {kChoices, OnModule, "a positive integer", isPositive},
    {kMode, OnModule, "\"infer\"", isMode},
    {kInputs, OnModule, "a list of dictionaries", isListOf<DictionaryAttr>},
    {kState, OnArgument | OnResult, "a symbol of a graph.state", isA<FlatSymbolRefAttr>},
    {kInput, OnArgument, "a string", isA<StringAttr>},
    {kScalar, OnArgument, "a string", isA<StringAttr>},
    {kOutput, OnResult, "a string", isA<StringAttr>},
    {kBatched, OnArgument, "a unit attribute", isA<UnitAttr>},
    {kLoader, OnArgument, "a #graph.loader", isA<LoaderAttr>},
    {kPrimal, OnResult, "an integer", isA<IntegerAttr>},
    {kCotangent, OnResult, "an integer", isA<IntegerAttr>},
    {kBackward, OnOp, "a unit attribute", isA<UnitAttr>},
    {kId, OnOp, "an integer", isA<IntegerAttr>},
    {kCotangentOf, OnOp, "an array of i64", isA<DenseI64ArrayAttr>},
    {kBiasRate, OnOp, "a float above 0", isRate},
    {kSumOf, OnOp, "a string", isA<StringAttr>},
    {kAnnotation, OnOp, "a dictionary", isA<DictionaryAttr>},
};

static StringRef inWords(AttributeOwner owner) {
  switch (owner) {
  case OnModule:
    return "a module";
  case OnOp:
    return "an op";
  case OnArgument:
    return "an argument";
  case OnResult:
    return "a result";
  }
  return "";
}

LogicalResult llmc::graph::verifyDiscardable(Operation *op, NamedAttribute attribute,
                                             AttributeOwner owner,
                                             ArrayRef<DiscardableAttribute> table) {
  StringRef name = attribute.getName();
  const auto *known = llvm::find_if(table, [&](const auto &entry) { return entry.name == name; });
  if (known == table.end())
    return op->emitError() << "'" << name << "' is no attribute of dialect '"
                           << name.split('.').first << "'";
  if (!(known->owners & owner))
    return op->emitError() << "'" << name << "' does not belong on " << inWords(owner);
  if (!known->accepts(attribute.getValue()))
    return op->emitError() << "'" << name << "' is " << known->form << ", got "
                           << attribute.getValue();
  return success();
}

// Checks the annotation of a source: into how many parts a node of the file cuts each dim.
static LogicalResult verifyAnnotation(SourceOp source, DictionaryAttr annotation) {
  if (!annotation.contains("cuts"))
    return success();
  auto cuts = annotation.getAs<DenseI64ArrayAttr>("cuts");
  if (!cuts || cuts.size() != cast<RankedTensorType>(source.getType()).getRank() ||
      !annotation.getAs<StringAttr>("node"))
    return source.emitError() << "'" << kAnnotation << "' has cuts, one a dim, and their node, got "
                              << annotation;
  return success();
}

LogicalResult GraphDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (failed(verifyDiscardable(op, attribute, isa<ModuleOp>(op) ? OnModule : OnOp, kTable)))
    return failure();
  auto source = dyn_cast<SourceOp>(op);
  return source && attribute.getName() == kAnnotation
             ? verifyAnnotation(source, cast<DictionaryAttr>(attribute.getValue()))
             : success();
}

LogicalResult GraphDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned,
                                                     NamedAttribute attribute) {
  return verifyDiscardable(op, attribute, OnArgument, kTable);
}

LogicalResult GraphDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                                        NamedAttribute attribute) {
  return verifyDiscardable(op, attribute, OnResult, kTable);
}
