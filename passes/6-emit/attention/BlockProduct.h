// Products and transposes of blocks that fit a cache: what attention is made of.
// Strides are in elements of float32 and known when the kernel is made.
#ifndef LLMC_PASSES_EMIT_ATTENTION_BLOCKPRODUCT_H
#define LLMC_PASSES_EMIT_ATTENTION_BLOCKPRODUCT_H

#include "passes/6-emit/kernel/Kernel.h"
#include "passes/6-emit/kernel/Math.h"

namespace llmc::emit {

// Vectors of one row of a tile that is held in registers, at most.
unsigned tileVectors(const Kernel &k);

// c[r, x] = start[r, x] + sum over t of a[r, t] * b[t, x], t in order, each sum in a
// register from start to end. Elements of a are broadcast; vectors run along x, where b
// and c are contiguous.
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
  // `rows` and `terms` >= 0 may be known only at run time; `factors` points to those of
  // Start::Scaled.
  void emit(Left a, Rows b, Rows c, Value rows, Value terms, int64_t columns, Start start,
            Value factors = {}) const;

private:
  struct Tile;
  void columnPanel(const Tile &shape, Value rows) const;
  void tile(const Tile &shape, Value row, unsigned rows) const;
};

// Between rows of memory and a block on the stack that holds them as columns: row r is at
// columns[.. * stride + r].
struct BlockTranspose {
  Kernel &k;
  Value columns;
  int64_t stride;
  // The pointer of the first element of a row.
  std::function<Value(Value r)> row;
  // Applied to vectors (or scalars) of float32 on the way. Going in, `element` is what
  // lies in memory.
  std::function<Value(Value x)> map;

  // Rows [0, count), `count` a multiple of the lanes, elements [0, size).
  void in(int64_t count, Value size, Type element) const;
  // Rows [0, count), elements [0, size), each times the factor of its row.
  void out(Value count, int64_t size, Value factors = {}) const;

private:
  void square(llvm::SmallVectorImpl<Value> &x) const;
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_ATTENTION_BLOCKPRODUCT_H
