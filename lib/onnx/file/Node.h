// Wraps a node of an ONNX graph, with its attributes by name. Tested by test/conformance
// (attributes of each op) and test/import/Learned.cpp (LostNames: labels).
#ifndef LLMC_LIB_ONNX_FILE_NODE_H
#define LLMC_LIB_ONNX_FILE_NODE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "onnx-ml.pb.h"

#include <optional>
#include <string>

namespace llmc::onnximport {

// Refers to a NodeProto, which must outlive it. Attribute readers return `fallback` (nullopt, null)
// if the attribute is absent or of another type.
class Node {
public:
  Node(const ::onnx::NodeProto &proto, int64_t opset) : proto(&proto), opset(opset) {}

  llvm::StringRef op() const { return proto->op_type(); }
  // Returns the op with its domain ("com.microsoft::FastGelu"), without it for the domain of ONNX.
  std::string qualifiedOp() const;
  // Returns the node's name, or one made of its op and first output ("MatMul:y").
  std::string name() const;
  // Returns the node's name for messages: "node 'lm_head' (MatMul)".
  std::string label() const;

  size_t inputs() const { return proto->input_size(); }
  // Returns the name of input `i`, "" if an optional input is left out.
  llvm::StringRef input(size_t i) const {
    return i < inputs() ? llvm::StringRef(proto->input(i)) : llvm::StringRef();
  }

  const ::onnx::AttributeProto *find(llvm::StringRef attribute) const;
  bool has(llvm::StringRef attribute) const { return find(attribute); }
  int64_t integer(llvm::StringRef attribute, int64_t fallback) const;
  double number(llvm::StringRef attribute, double fallback) const;
  std::string text(llvm::StringRef attribute, llvm::StringRef fallback) const;
  std::optional<llvm::SmallVector<int64_t, 4>> integers(llvm::StringRef attribute) const;

  const ::onnx::NodeProto *proto;
  int64_t opset;
};

// Returns `axis`, counted from the end if negative, in 0 ... rank - 1; nullopt if out of range.
inline std::optional<int64_t> normalAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return std::nullopt;
  return axis < 0 ? axis + rank : axis;
}

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_NODE_H
