// Why a collective is there, for people: {tactic, rule, node}, and what else is known of
// {seed (where the tactic began), moved (where the reduction was put), tensors}.
#ifndef LLMC_PASSES_PARTITION_ORIGIN_H
#define LLMC_PASSES_PARTITION_ORIGIN_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// From the annotations (`parallel.origin`, per axis) of whoever defines
// `value`, for the first of `axes` that they explain; else from the axis and
// `rule`. The node is the name in the definition's location, or the nearest one
// on the way to it; of an argument, the source of its state.
mlir::DictionaryAttr makeOrigin(mlir::Value value, llvm::ArrayRef<mlir::StringAttr> axes,
                                llvm::StringRef rule = "partial sums");

// Says more in the `parallel.origin` of an op that has one.
void setOriginField(mlir::Operation *op, llvm::StringRef name, const llvm::Twine &text);

// A tensor of `type` (global) that lies as `layout` and is needed as `needed` (null: so).
mlir::DictionaryAttr describeTensor(mlir::Type type, llvm::ArrayRef<std::string> names,
                                    parallel::ShardingAttr layout,
                                    parallel::ShardingAttr needed = {});

// The names under which people know a value: of the node that makes it or of its
// parameter; of what folded layers make or hold one a layer.
std::vector<std::string> namesOf(mlir::Value value);

// The name under which people know a state: its source tensor (of the layer
// `first` if it is stacked), else its location's name, else its symbol.
std::string getStateName(mlir::ModuleOp module, llvm::StringRef symbol, int64_t first = 0);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_ORIGIN_H
