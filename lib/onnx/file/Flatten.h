// Flattens an ONNX model into one list of nodes: calls of model-local functions are inlined, and
// the nodes of subgraphs precede the node that owns them. Tested by test/import/Functions.cpp.
#ifndef LLMC_LIB_ONNX_FILE_FLATTEN_H
#define LLMC_LIB_ONNX_FILE_FLATTEN_H

#include "lib/onnx/file/Node.h"
#include "lib/support/Error.h"

#include <deque>
#include <map>
#include <vector>

namespace llmc::onnximport {

// Holds the names of the results of an `If`, one for each output, per branch. The nodes of both
// branches are in the list; the `If` itself keeps its condition as its one operand.
struct Branches {
  std::vector<std::string> whenTrue, whenFalse;
};

// Holds the flat model. Nodes refer to protos of the model or in `made`.
struct FlatGraph {
  std::vector<Node> nodes;
  // Maps names, unique in the whole model, to the initializers of the graph and of subgraphs.
  std::vector<std::pair<std::string, const ::onnx::TensorProto *>> initializers;
  std::map<const ::onnx::NodeProto *, Branches> branches;
  std::deque<::onnx::NodeProto> made; // copies and aliases; a deque, so that addresses are stable
};

// Flattens `model`, which must outlive the result. Names inside functions and subgraphs are made
// unique; those of the graph stay. Fails with a list of all calls whose operands or results do
// not fit their function, and for recursive functions, sparse initializers, an `If` whose
// branches do not fit, nesting deeper than 64, and more than 2^20 nodes or 1 GiB of copies.
support::Result<FlatGraph> flatten(const ::onnx::ModelProto &model);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_FLATTEN_H
