// One list of nodes of an ONNX model: calls of model-local functions are replaced
// by what they stand for, subgraphs stand beside their node.
#ifndef LLMC_LIB_ONNX_FILE_FLATTEN_H
#define LLMC_LIB_ONNX_FILE_FLATTEN_H

#include "lib/onnx/file/Node.h"
#include "lib/support/Error.h"

#include <deque>
#include <map>
#include <vector>

namespace llmc::onnximport {

// An `If` in the list keeps its condition as its one operand. The nodes of both
// branches are in the list; their results are these names, one an output.
struct Branches {
  std::vector<std::string> whenTrue, whenFalse;
};

struct FlatGraph {
  std::vector<Node> nodes;
  // Name (unique in the whole model) -> initializer, of the graph and of subgraphs.
  std::vector<std::pair<std::string, const ::onnx::TensorProto *>> initializers;
  std::map<const ::onnx::NodeProto *, Branches> branches;
  std::deque<::onnx::NodeProto> made; // nodes that are not the file's own
};

// Names inside of functions and subgraphs become unique; those of the graph stay.
// `model` must outlive the result. The error lists all calls that do not fit
// their function; functions that call themselves and models that grow beyond
// reason are refused.
support::Result<FlatGraph> flatten(const ::onnx::ModelProto &model);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_FLATTEN_H
