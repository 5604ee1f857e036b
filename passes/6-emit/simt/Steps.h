// The steps of mapToThreads, in order. Each leaves a valid function.
#ifndef LLMC_PASSES_EMIT_SIMT_STEPS_H
#define LLMC_PASSES_EMIT_SIMT_STEPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/6-emit/kernel/Walks.h"
#include "passes/6-emit/simt/Simt.h"

namespace llmc::emit {

using mlir::Value;

// Alignment of the launch's buffers, in bytes.
inline constexpr int64_t kBufferAlignment = 16;
inline constexpr int64_t kWarp = 32;
// Address spaces.
inline constexpr unsigned kGlobalMemory = 1, kSharedMemory = 3;
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
// Whether the walk `elements` adds up rows at each of its columns.
bool hasTerms(mlir::scf::ForOp elements);
// Sums and maxima over threads.
int64_t countSums(mlir::func::FuncOp kernel);
// Whether there are columns whose rows threads share.
bool addsColumns(mlir::Operation *code);
// Turns of a loop, where they are known now.
std::optional<int64_t> tripCount(mlir::scf::ForOp loop);
std::optional<int64_t> constantOf(Value value);

// The elements [low, high) of a walk whose vectors reach past them. Only the first one may
// begin before `low`, and if `hasHead` is off it does not; the first `surelyInside` end before
// `high`. Of vectors that are `isWhole` none lies partly inside.
struct Edge {
  Value low, high;
  bool hasHead;
  int64_t surelyInside;
  bool isWhole = false;
};
using Edges = llvm::DenseMap<mlir::Operation *, Edge>;

// Tables of buffers and scalars become parameters.
mlir::LogicalResult flattenParameters(mlir::func::FuncOp kernel);
// Loops of rows right inside the loop of rows become one with it; the points of a row.
int64_t mergeRows(mlir::func::FuncOp kernel);
// Each row becomes `parts`; which of them it is.
Value splitRows(mlir::scf::ForOp rows, int64_t parts);
// Cuts long rows whose columns are added up into strips: how many.
int64_t cutColumns(mlir::func::FuncOp kernel, Edges &edges, int64_t &sharedBytes);
// Lays the vectors of walks of a known length where most of what they access is aligned.
void alignWalks(mlir::func::FuncOp kernel, Edges &edges);
// Lets many blocks of `threads` threads share a sum of everything, if the kernel is one. Gives
// the bytes of scratch that they leave their parts in, one more parameter; 0: it is none.
int64_t splitSum(mlir::func::FuncOp kernel, int64_t threads);
ThreadShape chooseShape(mlir::func::FuncOp kernel);
// Whether rows are single elements, walked in vectors.
bool rowsAreElements(mlir::func::FuncOp kernel);
// Each block takes a part of the points, a multiple of `granule` but for the last.
void splitOverBlocks(mlir::func::FuncOp kernel, int64_t granule);
// Walks over threads. Gives the shared bytes.
mlir::FailureOr<int64_t> distribute(mlir::func::FuncOp kernel, const ThreadShape &shape,
                                    const Edges &edges);
// What vector [i, i + width) of a walk does with its elements outside of [low, high), and with
// all of them unless `isActive` (null: it is): nothing. Gives what is carried then. Fails with a
// diagnostic on a body that cannot be kept from them.
mlir::FailureOr<llvm::SmallVector<Value>> copyInside(mlir::OpBuilder &b, mlir::scf::ForOp walk,
                                                     mlir::IRMapping &map, Value i,
                                                     const Edge &edge, Value isActive);
// States what is known of the alignment of each access, from that of the buffers and
// of `begin`.
void setAlignments(mlir::func::FuncOp kernel, int64_t beginMultiple);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_SIMT_STEPS_H
