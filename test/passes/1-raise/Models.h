// Builds decoders as different exporters write them, and varies what may differ between two files
// of the same model.
#ifndef LLMC_TEST_PASSES_RAISE_MODELS_H
#define LLMC_TEST_PASSES_RAISE_MODELS_H

#include "dialects/graph/Build.h"
#include "dialects/graph/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <random>

namespace llmc::test {

enum class Style {
  Plain,      // as read from a config: blocks are ops, dims are kept
  Flattening, // matmuls on [rows, width], scaled q and k, k through three dims, added mask
  Spelt,      // norms and GELU spelt out, chosen scores, key transposed at once
};

struct Spec {
  Style style = Style::Plain;
  int64_t batch = 2, sequence = 6, layers = 3, heads = 2, headDim = 4, vocabulary = 11, context = 9;
  bool fused = true;            // q, k and v are one matmul
  bool headTransposed = false;  // the tied head is a second, transposed view of the table
  bool weightsOutFirst = false; // weights lie as [out, in]
  bool f64 = true;              // element type
  int64_t width() const { return heads * headDim; }
};

// Builds a module with @forward : ids, parameters -> logits. Parameters of the same role have
// sources of the same name in every style, also where the fused weight is one source and the
// split one three.
mlir::OwningOpRef<mlir::ModuleOp> buildDecoder(mlir::MLIRContext &context, const Spec &spec);

// Renames all symbols and locations, puts the ops in a random order that keeps
// definitions before uses, exchanges operands of sums, products and matmuls,
// renames the letters of equations, and permutes arguments.
void disguise(mlir::ModuleOp module, std::mt19937 &random);

// Parses a module; null if it does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parse(mlir::MLIRContext &context, llvm::StringRef text);
void loadDialects(mlir::MLIRContext &context);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_RAISE_MODELS_H
