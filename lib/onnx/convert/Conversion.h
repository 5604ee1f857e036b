// Converts one ONNX node at a time into `graph` ops. Tested by test/conformance and test/import.
#ifndef LLMC_LIB_ONNX_CONVERT_CONVERSION_H
#define LLMC_LIB_ONNX_CONVERT_CONVERSION_H

#include "dialects/graph/Build.h"
#include "lib/onnx/fold/Symbolic.h"
#include "lib/onnx/bind/Inputs.h"
#include "lib/onnx/bind/Parameters.h"

#include <variant>

namespace llmc::onnximport {

// Holds a computed value, and its element type in the file if that differs from the graph's (int8
// is held as i64, float16 as f32).
struct ComputedValue {
  mlir::Value value;
  std::optional<Element> element;

  ComputedValue(mlir::Value value, std::optional<Element> element = std::nullopt)
      : value(value), element(element) {}
};

// Represents the value of a name in the ONNX graph: a known constant, held or symbolic, a view of a
// stored float tensor, a computed value, a sequence of these, or some rows of one (RaggedRows.h); empty
// if its node failed or it is left out.
using KnownConstant = std::shared_ptr<const Constant>;
using SymbolicConstant = std::shared_ptr<const Symbolic>;
struct Sequence;
struct RaggedRows;
using Operand = std::variant<std::monostate, KnownConstant, View, ComputedValue,
                             std::shared_ptr<const Sequence>, SymbolicConstant, std::shared_ptr<const RaggedRows>>;
struct Sequence {
  std::vector<Operand> parts;
};

// Describes the node that a constant was folded from. If the constant turns out to be learned,
// the node is converted after all.
struct FoldOrigin {
  Node node;
  std::vector<Operand> operands; // empty if it cannot be converted again
  std::set<unsigned> tensors; // stored floats that the constant can be recomputed from
  bool computes = false;      // arithmetic is involved, not only movement of elements
  std::set<unsigned> allTensors;    // all stored floats that it depends on, through any ops
};

inline Operand known(HostTensor tensor) {
  return std::make_shared<const Constant>(std::move(tensor));
}

// Builds the constants of the function: one graph.constant at its start for each value.
class Constants {
public:
  explicit Constants(mlir::Block &body) : body_(body) {}
  mlir::Value get(const HostTensor &tensor, mlir::Location loc);
  // Returns a slot for the value of a constant that is computed after all; null until it is set.
  mlir::Value &computed(const std::shared_ptr<const FoldOrigin> &origin) {
    return computed_[origin];
  }

private:
  mlir::Block &body_;
  std::map<std::shared_ptr<const FoldOrigin>, mlir::Value> computed_;
  llvm::DenseMap<mlir::Attribute, mlir::Value> made_;
};

// Returns the graph's type for an ONNX type: f32 for floats, i64 for integers, i1 for Bool.
mlir::Type elementType(mlir::MLIRContext *context, Element element);

// Provides a converter with a node, its operands, and a builder of `graph` ops. A symbolic operand
// has a shape and an element type only: it is built as ops before a converter asks for its value.
class NodeAdaptor {
public:
  NodeAdaptor(const Node &node, llvm::ArrayRef<const Operand *> operands, const Model &model,
       Parameters &parameters, Constants &constants, mlir::OpBuilder &builder);

  const Node &node;
  graph::Build build;

  // Returns the node with other operands, which must outlive it.
  NodeAdaptor with(llvm::ArrayRef<const Operand *> operands) const {
    return NodeAdaptor(node, operands, model_, parameters_, constants_, build.builder);
  }

  size_t size() const { return operands_.size(); }
  bool has(size_t i) const { return i < operands_.size() && operands_[i]; }
  Shape shape(size_t i) const;
  // Returns the element type in the graph: f32, i64 or i1.
  mlir::Type element(size_t i) const;
  bool isInference() const { return parameters_.isInference(); }
  bool isFloat(size_t i) const { return has(i) && mlir::isa<mlir::FloatType>(element(i)); }
  bool isBool(size_t i) const { return has(i) && element(i).isInteger(1); }
  bool isInteger(size_t i) const { return has(i) && element(i).isInteger(64); }
  // Returns the element type in the file.
  Element declared(size_t i) const;
  // Returns the value of a known operand, else null (also for views of weights): as a Constant,
  // with dims of equal elements as 1, and in full (null too above maxHostElements).
  const Constant *known(size_t i) const;
  const HostTensor *compact(size_t i) const;
  const HostTensor *constant(size_t i) const;
  const Symbolic *symbolic(size_t i) const;
  Shape storedShape(unsigned tensor) const { return model_.stored()[tensor].shape; }
  // Returns the view of a stored tensor that the operand is, else null.
  const View *view(size_t i) const;

  // Returns the stored floats that the operand is, or can be recomputed from.
  std::set<unsigned> storedFloats(size_t i) const;
  // Returns whether the operand consists of stored floats that may be learned, and operand
  // `other` is an activation.
  bool isCombinedWithActivation(size_t i, size_t other) const;

  // Returns whether the node is a norm that lacks this operand (1: scale, 2: bias) in the program,
  // so that the exporter filled it with `number`.
  bool isPlaceholderOperand(size_t i, double number) const;

  // Returns the operand in its own shape. A stored tensor is used with `role`.
  mlir::Value value(size_t i, UseKind role = UseKind::Plain);
  // Returns the operand for an elementwise op: dims that broadcasting restores may be 1 or, if
  // leading, absent.
  mlir::Value broadcastable(size_t i, UseKind role = UseKind::Plain);
  // Returns the argument that holds a view, and for each of its dims the dim of the view (those of
  // size 1 are absent).
  std::pair<mlir::Value, Shape> weight(const View &view, UseKind role);

  mlir::Value scalar(double value);                       // f32
  mlir::Value scalarLike(double value, mlir::Value like); // of like's element type
  mlir::Value materialize(const HostTensor &tensor) { return constants_.get(tensor, build.loc); }

  // Builds the product of operands 0 and 1, summed over the letters that `out` lacks. A letter may
  // be 1 in one operand and larger in the other, unless it is summed. Stored operands are used
  // with role Weight. Fails if shapes do not fit.
  support::Result<mlir::Value> einsum(llvm::StringRef lhs, llvm::StringRef rhs,
                                      llvm::StringRef out);

private:
  mlir::Value compute(const std::shared_ptr<const FoldOrigin> &origin, UseKind role);
  mlir::Value constantValue(const Constant &constant, llvm::ArrayRef<int64_t> shape);
  std::pair<mlir::Value, std::string> lettered(size_t i, llvm::StringRef letters,
                                               const std::map<char, int64_t> &sizes);

  llvm::SmallVector<const Operand *, 4> operands_;
  mutable std::map<size_t, HostTensor> dense_;
  const Model &model_;
  Parameters &parameters_;
  Constants &constants_;
  UseKind defaultRole_ = UseKind::Plain; // replaces Plain for views of stored tensors
};

using ConvertResult = support::Result<std::vector<Operand>>;
// Converts a node: checks its operands and fails with a message that lacks file and node. The
// result may have fewer operands than the node has outputs.
using ConvertFunction = ConvertResult (*)(NodeAdaptor &);

// Returns the converter of an op (Node::qualifiedOp), or null. The tables of the families follow.
ConvertFunction findConverter(llvm::StringRef op);
ConvertFunction findArithmeticConverter(llvm::StringRef op);
ConvertFunction findLogicConverter(llvm::StringRef op);
ConvertFunction findActivationConverter(llvm::StringRef op);
ConvertFunction findCastConverter(llvm::StringRef op);
ConvertFunction findQuantizeConverter(llvm::StringRef op);
ConvertFunction findMovementConverter(llvm::StringRef op);
ConvertFunction findRegionConverter(llvm::StringRef op);
ConvertFunction findGatherConverter(llvm::StringRef op);
ConvertFunction findScatterConverter(llvm::StringRef op);
ConvertFunction findWindowConverter(llvm::StringRef op);
ConvertFunction findMatmulConverter(llvm::StringRef op);
ConvertFunction findReduceConverter(llvm::StringRef op);
ConvertFunction findSearchConverter(llvm::StringRef op);
ConvertFunction findSoftmaxConverter(llvm::StringRef op);
ConvertFunction findLossConverter(llvm::StringRef op);
ConvertFunction findNormConverter(llvm::StringRef op);
ConvertFunction findRotaryConverter(llvm::StringRef op);
ConvertFunction findAttentionConverter(llvm::StringRef op);
ConvertFunction findMicrosoftConverter(llvm::StringRef op);
ConvertFunction findMicrosoftAttentionConverter(llvm::StringRef op);
ConvertFunction findGroupQueryConverter(llvm::StringRef op);
ConvertFunction findExpertsConverter(llvm::StringRef op);

// Records in a folded result the node and the stored floats it was computed from, if there are any.
void setOrigin(const Node &node, llvm::ArrayRef<const Operand *> operands, Operand &result);

// Converts a node and sets the element types of the results. Fails for an op without converter.
ConvertResult convertCall(NodeAdaptor &call);
// Converts a node whose operands are all known and evaluates the ops: the results are known.
ConvertResult foldByEvaluation(const Node &node, llvm::ArrayRef<const Operand *> operands,
                               const Model &model, Parameters &parameters,
                               mlir::MLIRContext *context);

inline ConvertResult single(mlir::Value value) { return std::vector<Operand>{value}; }

// Converts movement of a view to another view of the stored tensor; nullopt if it needs an op.
std::optional<ConvertResult> convertView(NodeAdaptor &call);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_CONVERSION_H
