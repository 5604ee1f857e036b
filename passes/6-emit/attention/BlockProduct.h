// Builds products and transposes of blocks that fit a cache, for attention. Products take float32;
// strides are in elements and known when the kernel is made. Cases:
// test/passes/6-emit/AttentionCases.cpp.
#ifndef LLMC_PASSES_EMIT_ATTENTION_BLOCKPRODUCT_H
#define LLMC_PASSES_EMIT_ATTENTION_BLOCKPRODUCT_H

#include "passes/6-emit/kernel/Kernel.h"
#include "passes/6-emit/kernel/Math.h"

namespace llmc::emit {

// Returns how many vectors one row of a tile has at most, so that the tile stays in registers.
unsigned tileVectors(const Kernel &k);

// Computes c[r, x] = start[r, x] + sum over t of a[r, t] * b[t, x], t in order, each sum in a
// register from start to end. Elements of a are broadcast; vectors run along x, where b and c
// are contiguous.
struct BlockProduct {
  Kernel &k;

  struct Left {
    Value base;
    int64_t row, term; // strides
  };
  struct Rows {
    Value base;
    int64_t stride;
  };
  enum class Start {
    Zero,
    Sum,   // c
    Scaled // c times a factor of its column
  };
  // Emits the product. `rows` and `terms` >= 0 may be known only at run time; `factors` points
  // to those of Start::Scaled.
  void emit(Left a, Rows b, Rows c, Value rows, Value terms, int64_t columns, Start start,
            Value factors = {}) const;

private:
  struct Tile;
  void columnPanel(const Tile &shape, Value rows) const;
  void tile(const Tile &shape, Value row, unsigned rows) const;
};

// Transposes between rows of memory and a block on the stack that holds them as columns: element
// n of row r is at columns[n * stride + r].
struct BlockTranspose {
  Kernel &k;
  Value columns;
  int64_t stride;
  // Returns the pointer of the first element of a row.
  std::function<Value(Value r)> row;
  // Converts vectors (or scalars) of what was loaded to float32 on the way in; null for the
  // identity. out() does not use it.
  std::function<Value(Value x)> map;

  // Reads rows [0, count), `count` a multiple of the lanes, elements [0, size).
  void in(int64_t count, Value size, Type element) const;
  // Writes rows [0, count), elements [0, size), of type `element` in memory, each times the
  // factor of its row.
  void out(Value count, int64_t size, Type element, Value factors = {}) const;

private:
  void square(llvm::SmallVectorImpl<Value> &x) const;
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_ATTENTION_BLOCKPRODUCT_H
