// Orders the nodes that some values need, each after its operands.
// Tested by test/import/Functions.cpp and Refusals.cpp.
#ifndef LLMC_LIB_ONNX_FILE_NODEORDER_H
#define LLMC_LIB_ONNX_FILE_NODEORDER_H

#include "lib/onnx/file/Model.h"
#include "lib/onnx/file/Node.h"
#include "llvm/ADT/StringSet.h"

namespace llmc::onnximport {

// Identifies the branches of an If that are needed.
enum class TakenBranches { True, False, Both, None };

// Visits nodes in post-order, from values through operands to the nodes that define them, so
// that the order does not depend on the order of the file.
class NodeTraversal {
public:
  // Receives each node after its operands; `choose` is called for an If once its condition has
  // been visited, and returns the branches to follow.
  using Visit = llvm::function_ref<void(const Node &)>;
  using Choose = llvm::function_ref<TakenBranches(const Node &)>;

  explicit NodeTraversal(const Model &model) : model_(model) {}

  // Indexes the definitions; must be called before run(). Fails with a list of all values that
  // are defined twice.
  support::Status index();
  // Visits each node that the values need once. Fails with a list of all names that nothing
  // defines, or for a cycle.
  support::Status run(llvm::ArrayRef<std::string> values, Visit visit, Choose choose);

private:
  struct Frame {
    unsigned node;
    size_t next = 0; // operand
    TakenBranches taken = TakenBranches::None;
  };
  support::Status enter(const std::string &value, llvm::function_ref<std::string()> user);
  const std::string *nextOperand(Frame &frame, Choose choose);

  const Model &model_;
  llvm::StringMap<unsigned> definedBy_;
  llvm::StringSet<> inputs_, missing_;
  std::string undefined_;
  std::vector<uint8_t> state_;
  std::vector<Frame> stack_;
};

// Holds nodes in an order in which operands come first.
struct NodeOrder {
  std::vector<Node> nodes;
  // Maps the names of outputs to positions in `nodes`.
  llvm::StringMap<size_t> producer;
  // Lists the graph's outputs that are needed.
  std::vector<std::string> results;
};

// Returns the order for the graph's first output, or for all outputs. Leaves out a branch that a
// condition stored in the file excludes. Fails as Walk does.
support::Result<NodeOrder> orderNodes(const Model &model, bool allOutputs);

// Fails with a list of the ops (Node::qualifiedOp) that `isKnown` rejects, and their nodes.
support::Status checkOps(const Model &model, const NodeOrder &order,
                         llvm::function_ref<bool(llvm::StringRef)> isKnown);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_NODEORDER_H
