// The nodes that the model's first output needs, each after its operands.
#ifndef LLMC_LIB_ONNX_NODEORDER_H
#define LLMC_LIB_ONNX_NODEORDER_H

#include "lib/onnx/Model.h"
#include "lib/onnx/Node.h"

namespace llmc::onnximport {

struct NodeOrder {
  std::vector<Node> nodes;
  // Output name -> position in `nodes`.
  llvm::StringMap<size_t> producer;
};

// The order follows operands from the first output, so it does not depend on the
// order of the file. The error lists all names without a producer, all names
// with two, or one cycle.
support::Result<NodeOrder> orderNodes(const Model &model);

// An error that lists every op that `isKnown` refuses, with its nodes.
support::Status checkOps(const Model &model, const NodeOrder &order,
                         llvm::function_ref<bool(llvm::StringRef)> isKnown);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_NODEORDER_H
