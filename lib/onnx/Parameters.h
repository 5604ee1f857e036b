// Stored tensors that become trained parameters: function arguments, states and
// sources.
#ifndef LLMC_LIB_ONNX_PARAMETERS_H
#define LLMC_LIB_ONNX_PARAMETERS_H

#include "dialects/graph/Build.h"
#include "lib/onnx/NodeOrder.h"
#include "lib/onnx/View.h"
#include "lib/pipeline/Options.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::onnximport {

// What a use says about a tensor. Plain uses alone leave it a constant.
enum class Role { Plain, Table, Weight, Bias, Scale };

class Parameters {
public:
  Parameters(const Model &model, mlir::Block &body, const CompileOptions &options)
      : model_(model), body_(body), fromFile_(options.weights.empty()), infer_(options.infer) {}

  // The table of the tokens is trained whatever it feeds.
  void setTokenTable(std::optional<unsigned> table) { tokenTable_ = table; }
  // An embedding table and the matrix of the logits that hold equal elements,
  // the one perhaps transposed, are one parameter.
  void tieHead(const NodeOrder &order);
  // The stored tensor as a view (of the table, if tied to it).
  View view(unsigned tensor) const;

  // The argument that holds a view's dims of size > 1 in canonical order.
  mlir::Value use(const View &view, Role role);

  // Turns arguments without a role into constants, splits that do not tile
  // their source into slices, sets the function's type, and writes sources,
  // states and attributes. The body ends with its return.
  void finish(mlir::ModuleOp module, mlir::func::FuncOp func);

  void noteConstant(unsigned tensor) { constants_.insert(tensor); }

private:
  struct Argument {
    View view;
    std::set<Role> roles;
    mlir::BlockArgument value;
  };

  bool isTrained(llvm::ArrayRef<Argument *> arguments) const;
  void makeConstant(Argument &argument);
  void useWholeSource(llvm::ArrayRef<Argument *> arguments);
  void declare(mlir::ModuleOp module, mlir::func::FuncOp func);
  void declareSource(mlir::OpBuilder &builder, unsigned tensor, const std::set<Role> &roles);

  const Model &model_;
  mlir::Block &body_;
  bool fromFile_, infer_;
  std::optional<unsigned> tokenTable_;
  std::map<unsigned, View> tied_; // head -> view of the table
  std::vector<std::unique_ptr<Argument>> arguments_;
  std::set<unsigned> constants_;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_PARAMETERS_H
