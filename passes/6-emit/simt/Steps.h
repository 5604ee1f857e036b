// Declares the steps of mapToThreads(), in order. Each leaves a valid function. Tests:
// test/passes/6-emit/map-to-threads*.mlir, EdgeCases.cpp.
#ifndef LLMC_PASSES_EMIT_SIMT_STEPS_H
#define LLMC_PASSES_EMIT_SIMT_STEPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/6-emit/kernel/LoopKinds.h"
#include "passes/6-emit/simt/Simt.h"

namespace llmc::emit {

using mlir::Value;

// Gives the alignment of the launch's buffers, in bytes.
inline constexpr int64_t kBufferAlignment = 16;
inline constexpr int64_t kWarp = 32;
// Lists the address spaces of NVVM.
inline constexpr unsigned kGlobalMemory = 1, kSharedMemory = 3;
// Counts the adjacent vectors of columns that a block adds up: 128 bytes of each row. Its other
// threads take other rows.
inline constexpr int64_t kColumnVectors = 8;

// Describes how the threads of a block are arranged: `perRow` of them work on one row.
struct ThreadShape {
  int64_t threads = 256;
  int64_t perRow = 256; // divides `threads`; a power of two, or all of them
  int64_t rows() const { return threads / perRow; }
};

// Returns whether the loop over rows `rows` contains a loop over elements, which the threads of
// a row can share.
bool containsElementLoop(mlir::scf::ForOp rows);
bool isLoopOfKind(mlir::Operation *op, llvm::StringRef kind);
// Returns whether the loop `elements` adds up rows at each of its columns.
bool hasTerms(mlir::scf::ForOp elements);
// Lets one thread add up each column of few terms, the choices of a token say: most threads of a
// block that shares them would have none.
void addShortSumsInOrder(mlir::func::FuncOp kernel);
// Counts the sums and maxima over threads.
int64_t countSums(mlir::func::FuncOp kernel);
// Returns whether `code` has loops over terms: columns whose rows threads share.
bool addsColumns(mlir::Operation *code);
// Returns the upper less the lower bound of a loop, if it is known at compile time: both are
// constants, or constants added to one value.
std::optional<int64_t> lengthOf(mlir::scf::ForOp loop);
// Returns the number of iterations of a loop, if it is known at compile time.
std::optional<int64_t> tripCount(mlir::scf::ForOp loop);
std::optional<int64_t> constantOf(Value value);

// Describes the elements [low, high) of a loop whose vectors reach past them. Only the first
// vector may begin before `low`, and it does not if `hasHead` is false; the first `surelyInside`
// vectors do not pass `high`. If `isWhole`, no vector lies partly inside.
struct VectorBounds {
  Value low, high;
  bool hasHead;
  int64_t surelyInside;
  bool isWhole = false;
};
using VectorBoundsMap = llvm::DenseMap<mlir::Operation *, VectorBounds>;

// Replaces the tables of buffers and scalars by parameters. Fails with a diagnostic if the
// function was not emitted for threads.
mlir::LogicalResult flattenParameters(mlir::func::FuncOp kernel);
// Merges loops over rows right inside the loop over rows into it; returns the points of a row.
int64_t mergeRows(mlir::func::FuncOp kernel);
// Makes `parts` iterations of each row; returns the number of the part of an iteration.
Value splitRows(mlir::scf::ForOp rows, int64_t parts);
// Cuts long rows whose columns are added up into strips; returns how many, 1 if none. Records
// their edges, and the shared memory that they take in `sharedBytes`.
int64_t cutColumns(mlir::func::FuncOp kernel, VectorBoundsMap &edges, int64_t &sharedBytes);
// Begins the vectors of loops of a known length where most of what they access is aligned, and
// records their edges.
void alignVectorLoops(mlir::func::FuncOp kernel, VectorBoundsMap &edges);
// Lets many blocks of `threads` threads share a sum of everything, if the kernel is one. Returns
// the bytes of scratch in which they leave partial sums, one more parameter; 0 if it is none.
int64_t splitSum(mlir::func::FuncOp kernel, int64_t threads);
// Returns how to arrange the threads of a block, by the lengths of the kernel's loops.
ThreadShape chooseShape(mlir::func::FuncOp kernel);
// Returns whether rows are single elements, in a loop over vectors.
bool rowsAreElements(mlir::func::FuncOp kernel);
// Gives each block a part of the points, a multiple of `granule` except for the last.
void splitOverBlocks(mlir::func::FuncOp kernel, int64_t granule);
// Distributes loops over threads. Returns the bytes of shared memory that combining takes; fails
// with a diagnostic on what threads cannot share.
mlir::FailureOr<int64_t> distribute(mlir::func::FuncOp kernel, const ThreadShape &shape,
                                    const VectorBoundsMap &edges);
// Copies the body of `walk` for vector [i, i + width), masked so that its elements outside of
// [low, high), and all of them unless `isActive` (null: always), do nothing. Returns the values
// that it then carries. Fails with a diagnostic on a body that cannot be masked.
mlir::FailureOr<llvm::SmallVector<Value>> copyMasked(mlir::OpBuilder &b, mlir::scf::ForOp walk,
                                                     mlir::IRMapping &map, Value i,
                                                     const VectorBounds &edge, Value isActive);
// Raises the alignment of each vector access to what is known from that of the buffers and of
// `begin`.
void setAlignments(mlir::func::FuncOp kernel, int64_t beginMultiple);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_SIMT_STEPS_H
