// Turns stored tensors into parameters (function arguments, states and sources) or constants.
// Tested by test/import: SmallGraphs.cpp, Exports.cpp, Learned.cpp and Programs.cpp.
#ifndef LLMC_LIB_ONNX_BIND_PARAMETERS_H
#define LLMC_LIB_ONNX_BIND_PARAMETERS_H

#include "lib/onnx/bind/Activations.h"
#include "lib/onnx/file/NodeOrder.h"
#include "lib/onnx/bind/ParameterNames.h"
#include "lib/onnx/bind/WeightSharing.h"
#include "lib/options/Options.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::onnximport {

// Collects the uses of stored tensors while nodes are converted, and decides in finish() which
// tensors are trained. Adds arguments to `body`; model and body must outlive it.
class Parameters {
public:
  Parameters(const Model &model, mlir::Block &body, const CompileOptions &options);

  // Sets the embedding table of the tokens, which is trained even if its rows only scale values.
  void setTokenTable(std::optional<unsigned> table) { tokenTable_ = table; }
  // Makes the embedding table and a matrix of the logits one parameter if their elements are
  // equal, perhaps transposed.
  void tieHead(const NodeOrder &order);
  // Makes them two parameters even if the file stores one tensor.
  void untieHead();
  // Returns a stored tensor as a view of itself, or of the tensor that it is tied to.
  View view(unsigned tensor) const;

  // Returns the argument that holds a view's dims of size > 1 in canonical order, which is added
  // if there is none yet, and records the use. WeightSharing decides whether two uses of equal
  // views share an argument.
  mlir::Value use(const View &view, UseKind role, const ::onnx::NodeProto *user);

  // Replaces arguments that are not trained by constants, and arguments whose views do not tile
  // their source by slices of one argument; sets the function's type, creates sources and states,
  // and sets attributes. `func` must already end with its return.
  void finish(mlir::ModuleOp module, mlir::func::FuncOp func);

  // Returns whether all of these stored tensors may be parameters: in training, if none is a
  // buffer of the program or, unless it is a parameter of it, holds a computed table.
  bool mayLearn(const std::set<unsigned> &tensors) const;
  // Records the stored tensors that a constant of the function was folded from.
  void noteFolded(mlir::Value constant, const std::set<unsigned> &tensors);
  Activations &activations() { return activations_; }
  void setSequence(int64_t sequence) { sequence_ = sequence; }
  int64_t sequence() const { return sequence_; }
  bool isInference() const { return infer_; }

  void noteConstant(unsigned tensor) { constants_.insert(tensor); }
  const TorchNames &names() const { return names_; }

  // Returns the notes to the user, one line each; complete after finish().
  const std::vector<std::string> &notes() const { return notes_; }

private:
  bool learns(const View &view, UseKind role, const ::onnx::NodeProto &user) const;
  bool isTrained(llvm::ArrayRef<ParameterArgument *> arguments);
  bool isComputedTable(unsigned tensor) const;
  bool isRotaryTable(llvm::ArrayRef<ParameterArgument *> arguments) const;
  bool isPlaceholder(unsigned tensor) const; // the exporter's stand-in for an absent parameter
  void noteUntrained();
  void makeConstant(ParameterArgument &argument);
  void useWholeSource(llvm::ArrayRef<ParameterArgument *> arguments);
  void declare(mlir::ModuleOp module, mlir::func::FuncOp func);
  void declareSource(mlir::OpBuilder &builder, const ParameterSource &source,
                     const std::set<UseKind> &roles);

  const Model &model_;
  TorchNames names_;
  mlir::Block &body_;
  bool fromFile_, infer_;
  int64_t sequence_ = 0;
  Activations activations_;
  mutable std::map<unsigned, bool> tables_; // what is known of the elements of stored tensors
  std::optional<unsigned> tokenTable_;
  std::map<unsigned, View> tied_; // head -> view of the table
  ParameterArguments arguments_;
  WeightSharing sharing_;
  std::set<unsigned> constants_, waves_;
  std::map<ParameterSource, ParameterName> sourceNames_;
  std::vector<std::string> notes_;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_PARAMETERS_H
