// Records why a collective exists, for reports: a dictionary {tactic, rule, node} and, where known,
// {seed (where the tactic began), moved (where the reduction was moved), tensors}. Tests:
// test/passes/4-partition/insert-reshards.mlir (makeOrigin), describe-ops.mlir,
// test/numerics/counts.py (origins).
#ifndef LLMC_PASSES_PARTITION_ORIGIN_H
#define LLMC_PASSES_PARTITION_ORIGIN_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Returns the origin of a collective over `axes` that `value` needs. Tactic, rule and seed are
// those of the annotation (`parallel.origin`, per axis) at the definition of `value`, for the first
// of `axes` that it has; else the tactic of the first axis, and `rule`. The node is the name in the
// definition's location, or the nearest one on the way back to it; of an argument, the source of
// its state; "unnamed" if there is none.
mlir::DictionaryAttr makeOrigin(mlir::Value value, llvm::ArrayRef<mlir::StringAttr> axes,
                                llvm::StringRef rule = "partial sums");

// Adds or replaces a field of the `parallel.origin` of an op.
void setOriginField(mlir::Operation *op, llvm::StringRef name, const llvm::Twine &text);

// Describes a tensor of the global `type`, which is defined as `layout` and needed as `needed`
// (null: as it is): {names (unless empty), type, layout, needed}.
mlir::DictionaryAttr describeTensor(mlir::Type type, llvm::ArrayRef<std::string> names,
                                    parallel::ShardingAttr layout,
                                    parallel::ShardingAttr needed = {});

// Returns the names of a value for reports: of the node that makes it or of the sources of its
// parameter; one name per layer of what folded layers make or hold. Empty if it has no single name.
// `symbols` are those of the module.
std::vector<std::string> namesOf(mlir::Value value, const mlir::SymbolTable &symbols);

// Returns the name of a state for reports: its source tensor (of layer `first` if it is stacked; of
// a gradient or moment, its parameter's), else its location's name, else its symbol.
std::string getStateName(mlir::ModuleOp module, llvm::StringRef symbol, int64_t first = 0);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_ORIGIN_H
