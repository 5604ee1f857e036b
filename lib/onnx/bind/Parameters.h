// Stored tensors that become trained parameters: function arguments, states and
// sources.
#ifndef LLMC_LIB_ONNX_BIND_PARAMETERS_H
#define LLMC_LIB_ONNX_BIND_PARAMETERS_H

#include "lib/onnx/bind/Activations.h"
#include "lib/onnx/file/NodeOrder.h"
#include "lib/onnx/bind/ParameterNames.h"
#include "lib/onnx/bind/WeightSharing.h"
#include "lib/pipeline/Options.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::onnximport {

class Parameters {
public:
  Parameters(const Model &model, mlir::Block &body, const CompileOptions &options);

  // The table of the tokens is trained whatever it feeds.
  void setTokenTable(std::optional<unsigned> table) { tokenTable_ = table; }
  // An embedding table and the matrix of the logits that hold equal elements,
  // the one perhaps transposed, are one parameter.
  void tieHead(const NodeOrder &order);
  // They are two, though the file may store one.
  void untieHead();
  // The stored tensor as a view (of the table, if tied to it).
  View view(unsigned tensor) const;

  // The argument that holds a view's dims of size > 1 in canonical order; equal
  // parameters that the file stores once are told apart (WeightSharing).
  mlir::Value use(const View &view, Role role, const ::onnx::NodeProto *user);

  // Turns arguments without a role into constants, splits that do not tile
  // their source into slices, sets the function's type, and writes sources,
  // states and attributes. The body ends with its return.
  void finish(mlir::ModuleOp module, mlir::func::FuncOp func);

  // Whether none of the stored tensors is known to be no parameter, or to be a table.
  bool mayLearn(const std::set<unsigned> &tensors) const;
  // A constant of the function that was folded from stored tensors.
  void noteFolded(mlir::Value constant, const std::set<unsigned> &tensors);
  Activations &activations() { return activations_; }
  void setSequence(int64_t sequence) { sequence_ = sequence; }
  int64_t sequence() const { return sequence_; }
  bool isInference() const { return infer_; }

  void noteConstant(unsigned tensor) { constants_.insert(tensor); }
  const TorchNames &names() const { return names_; }

  // What a reader should know, once all is converted: one line each.
  const std::vector<std::string> &notes() const { return notes_; }

private:
  bool learns(const View &view, Role role, const ::onnx::NodeProto &user) const;
  bool isTrained(llvm::ArrayRef<Argument *> arguments);
  bool isTable(unsigned tensor) const;
  bool isWave(llvm::ArrayRef<Argument *> arguments) const;
  bool isFiller(unsigned tensor) const; // it stands where a module has no parameter
  void noteUntrained();
  void makeConstant(Argument &argument);
  void useWholeSource(llvm::ArrayRef<Argument *> arguments);
  void declare(mlir::ModuleOp module, mlir::func::FuncOp func);
  void declareSource(mlir::OpBuilder &builder, const Source &source, const std::set<Role> &roles);

  const Model &model_;
  TorchNames names_;
  mlir::Block &body_;
  bool fromFile_, infer_;
  int64_t sequence_ = 0;
  Activations activations_;
  mutable std::map<unsigned, bool> tables_; // what is known of the elements of stored tensors
  std::optional<unsigned> tokenTable_;
  std::map<unsigned, View> tied_; // head -> view of the table
  Arguments arguments_;
  WeightSharing sharing_;
  std::set<unsigned> constants_, waves_;
  std::map<Source, ParameterName> sourceNames_;
  std::vector<std::string> notes_;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_PARAMETERS_H
