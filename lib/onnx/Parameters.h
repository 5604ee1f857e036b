// Stored tensors that become trained parameters: function arguments, states and
// sources.
#ifndef LLMC_LIB_ONNX_PARAMETERS_H
#define LLMC_LIB_ONNX_PARAMETERS_H

#include "dialects/graph/Build.h"
#include "lib/onnx/NodeOrder.h"
#include "lib/onnx/TorchNames.h"
#include "lib/onnx/View.h"
#include "lib/pipeline/Options.h"
#include "mlir/IR/BuiltinOps.h"

#include <tuple>

namespace llmc::onnximport {

// What a use says about a tensor. Plain uses alone leave it a constant.
enum class Role { Plain, Table, Weight, Bias, Scale };

// A parameter's first values: a stored tensor, which may hold those of several equal
// parameters (Parameters::use); `copy` counts them from 0.
struct Source {
  unsigned tensor = 0, copy = 0;
  bool operator<(const Source &other) const {
    return std::tie(tensor, copy) < std::tie(other.tensor, other.copy);
  }
};

class Parameters {
public:
  Parameters(const Model &model, mlir::Block &body, const CompileOptions &options)
      : model_(model), names_(model), body_(body), fromFile_(options.weights.empty()), infer_(options.infer),
        splits_(!options.infer && options.tie != Tie::Exact) {}

  // The table of the tokens is trained whatever it feeds.
  void setTokenTable(std::optional<unsigned> table) { tokenTable_ = table; }
  // An embedding table and the matrix of the logits that hold equal elements,
  // the one perhaps transposed, are one parameter.
  void tieHead(const NodeOrder &order);
  // The stored tensor as a view (of the table, if tied to it).
  View view(unsigned tensor) const;

  // The argument that holds a view's dims of size > 1 in canonical order. An exporter of
  // a model that was just initialised stores equal parameters (scales of ones, biases of
  // zeros) once. Unless the options say `exact`, they are told apart by what it left of
  // their names; where it left nothing, a vector is a parameter for each node that learns
  // it, if the model's layers do not share matrices too.
  mlir::Value use(const View &view, Role role, const ::onnx::NodeProto *user);

  // Turns arguments without a role into constants, splits that do not tile
  // their source into slices, sets the function's type, and writes sources,
  // states and attributes. The body ends with its return.
  void finish(mlir::ModuleOp module, mlir::func::FuncOp func);

  void noteConstant(unsigned tensor) { constants_.insert(tensor); }
  const TorchNames &names() const { return names_; }

  // What a reader should know, once all is converted: one line each.
  const std::vector<std::string> &notes() const { return notes_; }

private:
  struct Argument {
    View view;
    std::set<Role> roles;
    mlir::BlockArgument value;
    std::set<const ::onnx::NodeProto *> learners; // nodes that say it is a parameter
    unsigned copy = 0;

    Source source() const { return {view.tensor, copy}; }
  };

  bool isVector(unsigned tensor) const;
  bool learns(const View &view, Role role, const ::onnx::NodeProto &user) const;
  bool isAnother(const Argument &argument, const View &view, Role role,
                 const ::onnx::NodeProto *user) const;
  Argument *find(const View &view, Role role, const ::onnx::NodeProto *user, unsigned &copies);
  std::string sharedMatrix() const;
  void joinCopies();
  void settleCopies();
  // What the program calls a parameter.
  struct OwnName {
    std::string name;        // empty where nothing tells
    bool transposed = false; // the program holds the transpose
    bool inFile = false;     // a value of the file has the name
  };
  OwnName ownName(const Source &source) const;
  void nameSources();
  bool isTrained(llvm::ArrayRef<Argument *> arguments) const;
  void makeConstant(Argument &argument);
  void useWholeSource(llvm::ArrayRef<Argument *> arguments);
  void declare(mlir::ModuleOp module, mlir::func::FuncOp func);
  void declareSource(mlir::OpBuilder &builder, const Source &source, const std::set<Role> &roles);

  const Model &model_;
  TorchNames names_;
  mlir::Block &body_;
  bool fromFile_, infer_;
  bool splits_; // equal parameters that the file stores once are told apart
  std::optional<unsigned> tokenTable_;
  std::map<unsigned, View> tied_; // head -> view of the table
  std::vector<std::unique_ptr<Argument>> arguments_;
  std::set<unsigned> constants_;
  std::map<Source, std::string> sourceNames_;
  std::map<Source, OwnName> ownNames_; // of sources that have another name here
  std::vector<std::string> notes_;
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_PARAMETERS_H
