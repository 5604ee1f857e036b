// Why a collective is there, for people: {tactic, rule, node}.
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

// The name under which people know a state: its source tensor (of the layer
// `first` if it is stacked), else its location's name, else its symbol.
std::string getStateName(mlir::ModuleOp module, llvm::StringRef symbol, int64_t first = 0);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_ORIGIN_H
