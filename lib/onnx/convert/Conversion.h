// Conversion of one node at a time into `graph` ops.
#ifndef LLMC_LIB_ONNX_CONVERT_CONVERSION_H
#define LLMC_LIB_ONNX_CONVERT_CONVERSION_H

#include "dialects/graph/Build.h"
#include "lib/onnx/fold/Constant.h"
#include "lib/onnx/bind/Inputs.h"
#include "lib/onnx/bind/Parameters.h"

#include <variant>

namespace llmc::onnximport {

// A computed value, and its element type in the file where that is another than
// the graph's (int8 is held as i64, float16 as f32).
struct Computed {
  mlir::Value value;
  std::optional<Element> element;

  Computed(mlir::Value value, std::optional<Element> element = std::nullopt)
      : value(value), element(element) {}
};

// What a name of the ONNX graph stands for: a known constant, a view of a
// stored float tensor, a computed value, or a sequence of these. Empty where its node
// has failed.
using Known = std::shared_ptr<const Constant>;
struct Sequence;
using Operand =
    std::variant<std::monostate, Known, View, Computed, std::shared_ptr<const Sequence>>;
struct Sequence {
  std::vector<Operand> parts;
};

// The node that a constant was folded from. Where the constant turns out to be learned, the
// node is converted after all.
struct Origin {
  Node node;
  std::vector<Operand> operands;
  std::set<unsigned> tensors; // stored floats that it can be computed from again
  bool computes = false;      // it is more than elements that were moved
  std::set<unsigned> told;    // all stored floats behind it, of any ops
};

inline Operand known(HostTensor tensor) {
  return std::make_shared<const Constant>(std::move(tensor));
}

// Constants of the function: one op each, at its start.
class Constants {
public:
  explicit Constants(mlir::Block &body) : body_(body) {}
  mlir::Value get(const HostTensor &tensor, mlir::Location loc);
  // The value of a constant that is computed after all; null before it is set.
  mlir::Value &computed(const std::shared_ptr<const Origin> &origin) { return computed_[origin]; }

private:
  mlir::Block &body_;
  std::map<std::shared_ptr<const Origin>, mlir::Value> computed_;
  llvm::DenseMap<mlir::Attribute, mlir::Value> made_;
};

// What the graph holds for an ONNX type: floats as f32, integers as i64, i1.
mlir::Type elementType(mlir::MLIRContext *context, Element element);

// One node with its operands, as a converter sees it.
class Call {
public:
  Call(const Node &node, llvm::ArrayRef<const Operand *> operands, const Model &model,
       Parameters &parameters, Constants &constants, mlir::OpBuilder &builder);

  const Node &node;
  graph::Build build;

  size_t size() const { return operands_.size(); }
  bool has(size_t i) const { return i < operands_.size() && operands_[i]; }
  Shape shape(size_t i) const;
  // The element type in the graph: f32, i64 or i1.
  mlir::Type element(size_t i) const;
  bool isInference() const { return parameters_.isInference(); }
  bool isFloat(size_t i) const { return has(i) && mlir::isa<mlir::FloatType>(element(i)); }
  bool isBool(size_t i) const { return has(i) && element(i).isInteger(1); }
  bool isInteger(size_t i) const { return has(i) && element(i).isInteger(64); }
  // The element type in the file.
  Element declared(size_t i) const;
  // Null unless the operand is known (views of weights are not): with dims of
  // equal elements as 1, and in full (null too if it is too large).
  const Constant *known(size_t i) const;
  const HostTensor *compact(size_t i) const;
  const HostTensor *constant(size_t i) const;
  // Null unless the operand is a view of a stored tensor.
  const View *view(size_t i) const;

  // Stored floats that the operand is, or was folded from; none in inference.
  std::set<unsigned> storedFloats(size_t i) const;
  // Whether the operand is of stored floats that may be learned, and `other` an activation.
  bool isBeside(size_t i, size_t other) const;

  // Whether the node is a norm whose program has no such operand (1: scale, 2: bias), so that
  // the exporter filled one in with a number.
  bool isFilledIn(size_t i, double number) const;

  // The operand in its own shape. A stored tensor is used in `role`.
  mlir::Value value(size_t i, Role role = Role::Plain);
  // The same for an elementwise op: equal and leading dims that broadcasting
  // brings back may be missing.
  mlir::Value broadcastable(size_t i, Role role = Role::Plain);
  // The argument that holds a stored tensor, and which dim of the operand each
  // of its dims is (dims of size 1 have none).
  std::pair<mlir::Value, Shape> weight(const View &view, Role role);

  mlir::Value scalar(double value);                       // f32
  mlir::Value scalarLike(double value, mlir::Value like); // of like's element type
  mlir::Value materialize(const HostTensor &tensor) { return constants_.get(tensor, build.loc); }

  // sum over the letters that `out` lacks; a letter may be 1 in one operand and
  // larger in the other. Operands are taken with role Weight.
  support::Result<mlir::Value> einsum(llvm::StringRef lhs, llvm::StringRef rhs,
                                      llvm::StringRef out);

private:
  mlir::Value compute(const std::shared_ptr<const Origin> &origin, Role role);
  mlir::Value constantValue(const Constant &constant, llvm::ArrayRef<int64_t> shape);
  std::pair<mlir::Value, std::string> lettered(size_t i, llvm::StringRef letters,
                                               const std::map<char, int64_t> &sizes);

  llvm::SmallVector<const Operand *, 4> operands_;
  mutable std::map<size_t, HostTensor> dense_;
  const Model &model_;
  Parameters &parameters_;
  Constants &constants_;
  Role least_ = Role::Plain; // of uses that say nothing
};

using ConvertResult = support::Result<std::vector<Operand>>;
// A converter checks its operands and fails with a message that lacks file and
// node. It may return fewer operands than the node has outputs.
using ConvertFunction = ConvertResult (*)(Call &);

// Null if there is no such op; `op` is Node::qualifiedOp. The tables of the
// families follow.
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

// Remembers what a folded result was computed from, where stored floats are in it.
void setOrigin(const Node &node, llvm::ArrayRef<const Operand *> operands, Operand &result);

// Converts a node by its converter; the results know their element types.
ConvertResult convertCall(Call &call);
// The same where all operands are known: so are the results.
ConvertResult foldByEvaluation(const Node &node, llvm::ArrayRef<const Operand *> operands,
                               const Model &model, Parameters &parameters,
                               mlir::MLIRContext *context);

inline ConvertResult single(mlir::Value value) { return std::vector<Operand>{value}; }

// Views of stored tensors: movement that needs no op. nullopt if it needs one.
std::optional<ConvertResult> convertView(Call &call);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_CONVERSION_H
