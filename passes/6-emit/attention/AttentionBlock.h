// Computes a panel of queries against a block of keys, for attention and its gradient. Queries
// lie in lanes: what belongs to one of them (its maximum, its sum, its visible keys) is computed
// as a vector, and rows of k and v are read where they are or, if they are narrow, widened to
// the stack once for each block.
//
// On the stack, "columns" [n][width] hold element n of every query of the panel: of the head's
// elements for q, of the block's keys for scores. Cases: test/passes/6-emit/AttentionCases.cpp.
#ifndef LLMC_PASSES_EMIT_ATTENTION_ATTENTIONBLOCK_H
#define LLMC_PASSES_EMIT_ATTENTION_ATTENTIONBLOCK_H

#include "passes/6-emit/attention/AttentionShape.h"
#include "passes/6-emit/attention/BlockProduct.h"

namespace llmc::emit {

struct AttentionBlocks {
  Kernel &k;
  const AttentionShape &shape;
  int64_t keyBlock; // a multiple of every height of tiles
  unsigned vectors; // of a panel
  int64_t width;    // queries of a panel
  Value queries, scores, mask, biases, slopes;
  Value positions; // i64, of the panel's queries; null without dropout
  Value lastSeen;  // i32, the last position that each query of the panel sees; null without positions

  // Allocates the stack blocks. With `wantsSlopes` makeScores() leaves the slope of softcap at
  // each score.
  AttentionBlocks(Kernel &k, const AttentionShape &shape, int64_t keyBlock, bool wantsSlopes);

  // Identifies queries [i, i + rows) of one head, 1 <= rows <= width. Columns past them repeat
  // the last.
  struct Panel {
    Value batch, head, i, rows;
    Value kvStart; // of the keys of the head, in elements
    Value leastSeen, mostSeen; // bounds of lastSeen; null without positions
  };
  // Calls `body` for every panel of queries [from, to) of head `head`.
  void panels(Value batch, Value head, Value from, Value to,
              const std::function<void(const Panel &)> &body) const;
  // Calls `body` for the blocks of keys of [low, high) that some query of the panel can see, in
  // order, and returns the final carried values.
  using KeysBody = std::function<void(Value from, Value to, mlir::ValueRange carried,
                                      llvm::SmallVectorImpl<Value> &next)>;
  llvm::SmallVector<Value> keyBlocks(const Panel &panel, Value low, Value high,
                                     mlir::ValueRange init, const KeysBody &body) const;

  // Returns the number of query i among those of all batches and heads; placeOf() that of the
  // query in a `column` of the panel, or of the panel's last query.
  Value place(const Panel &panel, Value i) const;
  Value placeOf(const Panel &panel, Value column) const;
  // Returns the transpose between `columns` and the panel's rows of `tensor` (of q's shape).
  BlockTranspose transpose(const Panel &panel, Value columns, Value tensor) const;
  void zero(Value columns, int64_t count) const;

  // Returns the rows of k, v, dk or dv from key `from` on.
  BlockProduct::Rows keyRows(Value tensor, const Panel &panel, Value from) const;
  // Allocates `count` rows of float32 on the stack if rows in memory are narrow; else null.
  Value wideRows(int64_t count) const;
  // Widens `count` rows of `tensor`, the first from element `start` on and the others `stride`
  // apart, into `rows`.
  void widen(Value tensor, Value start, int64_t stride, Value count, Value rows) const;
  // Returns rows [from, to) of k or v as float32: where they lie or, if `rows` is not null,
  // widened into that.
  BlockProduct::Rows floatKeys(Value tensor, const Panel &panel, Value from, Value to,
                               Value rows) const;
  // Computes result [to - from][width] = rows `keys` times `columns` of the panel.
  void multiplyKeys(BlockProduct::Rows keys, Value from, Value to, Value columns,
                    Value result) const;
  // Computes what enters softmax for keys [from, to), whose rows are `keys`, into `scores`: -inf
  // where a query does not see the key. `queries` must hold the scaled queries.
  void makeScores(BlockProduct::Rows keys, const Panel &panel, Value from, Value to) const;

  // Returns the factors that dropout gives to the weights of key `key`, of vector `v` of queries.
  Value dropoutFactor(const Panel &panel, Value key, unsigned v) const;

  // Returns the address of element (n, v * lanes) of columns; load() reads a vector there.
  Value at(Value columns, Value n, unsigned v) const;
  Value load(Value columns, Value n, unsigned v) const;
  Value splat(double value) const;
  // Returns e^x for x < 88, with a relative error of 2e-7 or 1e-6 |x| / 80, whichever is larger;
  // 0 below -87.
  Value power(Value x) const;

private:
  void addBias(const Panel &panel, Value from, Value to) const;
  void applyRules(const Panel &panel, Value from, Value to) const;
  void hide(const Panel &panel, Value from, Value to) const;
  void hideByPosition(Value from, Value to) const;
  std::pair<Value, Value> boundsOfKeys(Value from, Value to) const;
  Value maskStart(const Panel &panel, Value i) const;
  bool maskHasRows() const;
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_ATTENTION_ATTENTIONBLOCK_H
