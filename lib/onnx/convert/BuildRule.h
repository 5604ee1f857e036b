// Builds symbolic constants as ops that compare positions. Tested by test/numerics/masks.py.
#ifndef LLMC_LIB_ONNX_CONVERT_BUILDRULE_H
#define LLMC_LIB_ONNX_CONVERT_BUILDRULE_H

#include "lib/onnx/convert/Conversion.h"

namespace llmc::onnximport {

// Builds each rule once: all layers have the same mask, and each layer may have its own nodes.
class RuleBuilder {
public:
  RuleBuilder(Constants &constants, mlir::OpBuilder &builder)
      : constants_(constants), builder_(builder) {}

  // Returns the value of a constant for which a support::IntervalRule is proven; null if it follows
  // none. The ops take the location of `node`. Fails if an element cannot be computed.
  support::Result<mlir::Value> build(const SymbolicConstant &symbolic, const Node &node);

private:
  using Key = std::tuple<Shape, std::pair<size_t, size_t>, std::vector<int64_t>,
                         std::vector<int64_t>, uint64_t, uint64_t, Element>; // bits of numbers
  mlir::Value boundOf(graph::Build &build, llvm::ArrayRef<int64_t> bounds, int64_t keys,
                      llvm::ArrayRef<int64_t> shape, size_t dim);
  mlir::Value seenBy(graph::Build &build, const support::IntervalRule &rule,
                     llvm::ArrayRef<int64_t> shape);
  mlir::Value number(graph::Build &build, double value, Element element);

  Constants &constants_;
  mlir::OpBuilder &builder_;
  std::map<SymbolicConstant, mlir::Value> built_; // null: follows no rule
  std::map<Key, mlir::Value> rules_;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_BUILDRULE_H
