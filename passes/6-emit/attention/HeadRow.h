// Holds rows of one attention head in registers: `dim` floats as vectors, of type `element` in
// memory. Cases:
// test/passes/6-emit/AttentionCases.cpp.
#ifndef LLMC_PASSES_EMIT_ATTENTION_HEADROW_H
#define LLMC_PASSES_EMIT_ATTENTION_HEADROW_H

#include "passes/6-emit/kernel/Kernel.h"
#include "passes/6-emit/kernel/Math.h"

namespace llmc::emit {

struct HeadRow {
  Kernel &k;
  int64_t dim;
  Type element;
  using Row = llvm::SmallVector<Value, 8>;

  Row load(Value base, Value start) const;
  void store(const Row &row, Value base, Value start) const;
  Row zero() const;
  Row scale(const Row &row, Value factor) const;
  // Returns sum + factor * row.
  Row axpy(Value factor, const Row &row, mlir::ValueRange sum) const;
  // Returns the dot product with the row at `start`, or of two rows, added in a fixed order.
  Value dot(const Row &row, Value base, Value start) const;
  Value dot(const Row &x, const Row &y) const;

private:
  // Returns (offset, width) of the vectors that make up a row.
  llvm::SmallVector<std::pair<int64_t, unsigned>> chunks() const;
  Math math() const { return Math{k.b, k.loc}; }
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_ATTENTION_HEADROW_H
