// Extracts the table of prices of a stack that is not ours from the folded IR of a partitioned training step: what each op
// computes, moves and keeps, by walking it. Tests: test/predict.
#ifndef LLMC_LIB_PREDICT_EXTRACTTABLE_H
#define LLMC_LIB_PREDICT_EXTRACTTABLE_H

#include "lib/cost/Software.h"
#include "lib/cost/Table.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::predict {

// Returns the table of a module that phase 4 left for one stage (pp = 1) without ZeRO. If the module has one layer of
// each kind (layer_kinds of graph.model), the table has all of them. `software` says which products and values are
// joined (WorkCounter.h), `bodies` how many layers the body of each repeat has: more attentions are parts of one, where keys
// go around a ring.
cost::Table extractTable(mlir::ModuleOp module, cost::Profile software, llvm::ArrayRef<int64_t> bodies);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_EXTRACTTABLE_H
