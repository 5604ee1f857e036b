// Recovers what torch.onnx leaves of the exported program: names of parameters and buffers, in the
// metadata of nodes (dynamo=True) or in names of nodes and values.
// Tested by test/import/Programs.cpp, Exports.cpp and Learned.cpp.
#ifndef LLMC_LIB_ONNX_FILE_TORCHNAMES_H
#define LLMC_LIB_ONNX_FILE_TORCHNAMES_H

#include "lib/onnx/file/Model.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <set>

namespace llmc::onnximport {

// Describes a call of the program, from the metadata `pkg.torch.onnx.fx_node` and
// `pkg.torch.onnx.name_scopes` of the node that it became. Names of parameters are in lower case
// with '_' for '.', as torch.export writes them ("mangled").
struct TorchCall {
  std::string target;                 // "aten.linear.default"
  std::vector<std::string> arguments; // "%x", "[32]", "None"; empty if there are keyword arguments
  std::set<std::string> parameters;   // operands that the program trains, mangled
  bool ofLookups = false;             // all operands are results of embeddings and slices
  std::vector<std::string> scopes;    // modules around the call, the innermost last
};

// Answers queries about the program. `tensor` is an index into Model::stored(), `user` a node that
// reads it. The model must outlive the object.
class TorchNames {
public:
  explicit TorchNames(const Model &model);

  // Returns whether the stored tensor has the name of a parameter (of a buffer) of the program;
  // false for files without metadata, and for folded tensors.
  bool isParameter(unsigned tensor) const;
  bool isBuffer(unsigned tensor) const;
  // Returns whether the stored tensor has the name of a parameter or buffer in a file that does
  // not record which of both: torch.onnx without dynamo keeps these names.
  bool isState(unsigned tensor) const;
  // Returns whether the stored tensor holds the folded result of an embedding or a slice: rows of
  // a table that the program trains, not all of them equal.
  bool isLookup(unsigned tensor, const ::onnx::NodeProto &user) const;

  // Returns whether the file records which call of the program a node was.
  bool knows(const ::onnx::NodeProto &node) const { return callOf(node); }
  // Returns false if the call of the node is known and has no parameter, else true.
  bool mayRead(const ::onnx::NodeProto &node) const {
    const TorchCall *call = callOf(node);
    return !call || !call->parameters.empty();
  }
  // Returns whether the node was an elementwise call with exactly one parameter.
  bool readsOneParameter(const ::onnx::NodeProto &node) const;
  // Returns whether `user` was a product with a parameter and the stored tensor is its right
  // operand, under whatever name: it is then that parameter.
  bool isWeight(unsigned tensor, const ::onnx::NodeProto &user) const;
  // Returns whether `user` was a norm without this operand (1: scale, 2: bias) in the program: the
  // exporter filled in ones or zeros.
  bool lacksOperand(const ::onnx::NodeProto &user, size_t operand) const;
  // Returns whether torch.onnx without dynamo wrote the tensor as a Constant node, as it does for
  // absent parameters: ones for a norm's scale, zeros for its bias.
  bool isConstantNode(unsigned tensor) const;
  // Returns whether nodes record the calls that they come from.
  bool hasCalls() const { return !calls_.empty(); }
  const TorchCall *callOf(const ::onnx::NodeProto &node) const;
  const std::map<const ::onnx::NodeProto *, TorchCall> &calls() const { return calls_; }
  // Returns all parameters that torch.export lists in the file: mangled names and names.
  const std::vector<std::pair<std::string, std::string>> &program() const { return program_; }
  // Returns a name as torch.export writes it in calls.
  static std::string mangled(llvm::StringRef name);
  // Returns whether the exporter records which nodes share a parameter.
  bool recordsSharing() const { return scripted_ || !calls_.empty(); }
  // Returns whether two nodes read one parameter, nullopt if unknown.
  std::optional<bool> sameParameter(const ::onnx::NodeProto &a, const ::onnx::NodeProto &b) const;

  // Returns the program's name of the parameter that `user` reads as `suffix` (weight or bias), ""
  // if unknown.
  std::string nameOf(const ::onnx::NodeProto &user, llvm::StringRef suffix) const;
  // Returns whether a name is one that the exporter made up for a folded tensor.
  static bool isGeneratedName(llvm::StringRef name);
  // Returns whether the program's parameter is the transpose of the matrix that `user` reads.
  bool isTransposed(const ::onnx::NodeProto &user) const;

private:
  void readSignature(const Model &model);

  const Model &model_;
  // Records that torch.onnx without dynamo wrote the file: it stores equal tensors of several names
  // once, with an Identity for each further name, so that one name is one parameter.
  bool scripted_ = false;
  bool keepsStates_ = false; // the same, with Constant nodes: initializers have the program's names
  std::map<const ::onnx::NodeProto *, TorchCall> calls_;
  std::vector<std::pair<std::string, std::string>> program_;
  llvm::StringMap<std::string> fullNames_; // of the program's parameters, by what calls name them
  llvm::StringSet<> parameters_, buffers_; // of all calls, and of the program's signature
  llvm::StringSet<> stored_;               // mangled, by what the file has
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_TORCHNAMES_H
