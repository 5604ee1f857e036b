// Finds the kinds of layers of a folded module, and which of them each layer of the model is. Tests: test/predict.
#ifndef LLMC_LIB_PREDICT_LAYERS_H
#define LLMC_LIB_PREDICT_LAYERS_H

#include "dialects/graph/Graph.h"
#include "lib/cost/Table.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::predict {

// Returns the folded layers of a function, in order.
llvm::SmallVector<graph::RepeatOp> repeatsOf(mlir::func::FuncOp func);

// Returns which of the layers of a module that has one of each kind each layer of the model is like; null of a module that has
// all of its layers.
mlir::ArrayAttr layerKinds(mlir::ModuleOp module);

// Sets kind and width of all layers of the model: a repeat is a kind. Kinds whose body has several layers become the mean
// of these. `bodies` are the layers of the body of each repeat.
void setLayers(mlir::ModuleOp module, llvm::ArrayRef<graph::RepeatOp> repeats, llvm::ArrayRef<int64_t> bodies, std::vector<cost::Part> kinds,
               cost::Table &table);

// Sets to how many experts, of how many, a token goes.
void setExperts(mlir::func::FuncOp forward, cost::Table &table);

// Returns whether experts read a value as their weights, perhaps after a gather, cast or reshape.
bool feedsExperts(mlir::Value value);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_LAYERS_H
