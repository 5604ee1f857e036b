// Counts what backward reads of the forward pass of one block. Tests: test/predict/TableTest.cpp, and
// test/numerics/predictions.py (memory of published runs).
#ifndef LLMC_LIB_PREDICT_KEPTCOUNTER_H
#define LLMC_LIB_PREDICT_KEPTCOUNTER_H

#include "dialects/graph/Graph.h"
#include "llvm/ADT/DenseSet.h"

namespace llmc::predict {

// Holds the bytes of each value once: operands of products, of norms and of attention are `inputs`; `unfused` are those
// between elementwise ops that are not linear, which are kept where each op is a kernel of its own. `products` are those
// inputs that no elementwise op and no norm computes.
class KeptCounter {
public:
  // Takes the number of attentions around one ring: the first has the rank's own keys, and what the others see is sent.
  explicit KeptCounter(int64_t rings = 1) : rings_(rings) {}

  void count(mlir::Operation *op);

  double inputs = 0, unfused = 0, products = 0;

private:
  void keep(mlir::Value value);
  void keepElementwise(mlir::Value value);

  llvm::DenseSet<mlir::Value> seen_, unfusedSeen_;
  int64_t rings_, attentions_ = 0;
};

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_KEPTCOUNTER_H
