// The steps of mapToThreads, in order. Each leaves a valid function.
#ifndef LLMC_PASSES_EMIT_SIMT_STEPS_H
#define LLMC_PASSES_EMIT_SIMT_STEPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/6-emit/Walks.h"
#include "passes/6-emit/simt/Simt.h"

namespace llmc::emit {

using mlir::Value;

// Alignment of the launch's buffers, in bytes.
inline constexpr int64_t kBufferAlignment = 16;
inline constexpr int64_t kWarp = 32;
// Vectors of columns beside each other that a block adds up: 128 bytes of each row. Its other
// threads take other rows.
inline constexpr int64_t kColumnVectors = 8;

// How the threads of a block stand: `perRow` of them work at one row.
struct ThreadShape {
  int64_t threads = 256;
  int64_t perRow = 256; // divides `threads`; a power of two, or all of them
  int64_t rows() const { return threads / perRow; }
};

// Whether the walk over rows `rows` has something for the threads of a row to share.
bool holdsElements(mlir::scf::ForOp rows);
bool isWalk(mlir::Operation *op, llvm::StringRef kind);
// Whether there are columns whose rows threads share.
bool addsColumns(mlir::func::FuncOp kernel);
// Turns of a loop, where they are known now.
std::optional<int64_t> tripCount(mlir::scf::ForOp loop);
std::optional<int64_t> constantOf(Value value);

// Tables of buffers and scalars become parameters.
mlir::LogicalResult flattenParameters(mlir::func::FuncOp kernel);
// Loops of rows right inside the loop of rows become one with it; the points of a row.
int64_t mergeRows(mlir::func::FuncOp kernel);
ThreadShape chooseShape(mlir::func::FuncOp kernel);
// Whether rows are single elements, walked in vectors.
bool rowsAreElements(mlir::func::FuncOp kernel);
// Each block takes a part of the points, a multiple of `granule` but for the last.
void splitOverBlocks(mlir::func::FuncOp kernel, int64_t granule);
// Walks over threads. Gives the shared bytes.
mlir::FailureOr<int64_t> distribute(mlir::func::FuncOp kernel, const ThreadShape &shape);
// States what is known of the alignment of each access, from that of the buffers and
// of `begin`.
void setAlignments(mlir::func::FuncOp kernel, int64_t beginMultiple);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_SIMT_STEPS_H
