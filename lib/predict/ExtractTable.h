// Extracts the table of prices from the folded IR of a partitioned training step: what each op computes, moves and
// keeps, by walking it. Tests: test/predict.
#ifndef LLMC_LIB_PREDICT_EXTRACTTABLE_H
#define LLMC_LIB_PREDICT_EXTRACTTABLE_H

#include "lib/cost/Software.h"
#include "lib/cost/Table.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::predict {

// Returns the table of a module that phase 4 left for one stage (pp = 1) without ZeRO. If the module has one layer of
// each kind (layer_kinds of graph.model), the table has all of them. Of other software than
// our own, products that read one operand or add into one result are one, as stacks compute query, key and value, or
// gate and up; where it fuses, values between elementwise ops take no bytes.
// `rings` is the number of attentions that each attention of the model became: cp where keys go around a ring, else 1.
cost::Table extractTable(mlir::ModuleOp module, cost::Profile software, int64_t rings);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_EXTRACTTABLE_H
