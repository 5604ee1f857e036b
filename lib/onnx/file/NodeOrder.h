// The nodes that some values need, each after its operands.
#ifndef LLMC_LIB_ONNX_FILE_NODEORDER_H
#define LLMC_LIB_ONNX_FILE_NODEORDER_H

#include "lib/onnx/file/Model.h"
#include "lib/onnx/file/Node.h"
#include "llvm/ADT/StringSet.h"

namespace llmc::onnximport {

// Which branches of an If are needed.
enum class Taken { True, False, Both, None };

// Follows operands from values to the nodes that make them, so the order does not
// depend on the order of the file.
class Walk {
public:
  // `choose` is asked for an If after its condition has been visited.
  using Visit = llvm::function_ref<void(const Node &)>;
  using Choose = llvm::function_ref<Taken(const Node &)>;

  explicit Walk(const Model &model) : model_(model) {}

  // Fails if values or nodes have one name twice; lists them.
  support::Status index();
  // Visits what the values need. The error lists all names without a producer,
  // or one cycle.
  support::Status run(llvm::ArrayRef<std::string> values, Visit visit, Choose choose);

private:
  struct Frame {
    unsigned node;
    size_t next = 0; // operand
    Taken taken = Taken::None;
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

struct NodeOrder {
  std::vector<Node> nodes;
  // Output name -> position in `nodes`.
  llvm::StringMap<size_t> producer;
  // The graph's outputs that are asked for.
  std::vector<std::string> results;
};

// The order for the graph's first output, or for all. Where a condition is a
// constant of the file, the other branch is left out.
support::Result<NodeOrder> orderNodes(const Model &model, bool allOutputs);

// An error that lists every op (Node::qualifiedOp) that `isKnown` refuses, with its nodes.
support::Status checkOps(const Model &model, const NodeOrder &order,
                         llvm::function_ref<bool(llvm::StringRef)> isKnown);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_NODEORDER_H
