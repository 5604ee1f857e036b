// Finds the type in which an inference computes that names none. Test: test/numerics/precision.py (an
// inference).
#ifndef LLMC_LIB_PIPELINE_STOREDPRECISION_H
#define LLMC_LIB_PIPELINE_STOREDPRECISION_H

#include "lib/options/Options.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace llmc {

// Returns the type in which most elements of the weights are stored, or, where no file holds them as
// floats (they are drawn, or quantised), `dtype` of config.json. Returns none for float32 and where
// nothing is said. Emits a remark if tensors of another type will be rounded to it.
std::optional<Precision> storedPrecision(mlir::ModuleOp module);

} // namespace llmc

#endif // LLMC_LIB_PIPELINE_STOREDPRECISION_H
