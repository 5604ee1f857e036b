// What torch.onnx leaves of the program that it exported: names of parameters and
// buffers, in the metadata of nodes (dynamo=True) or in names of nodes and values.
#ifndef LLMC_LIB_ONNX_FILE_TORCHNAMES_H
#define LLMC_LIB_ONNX_FILE_TORCHNAMES_H

#include "lib/onnx/file/Model.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <set>

namespace llmc::onnximport {

// A call of the program, as `pkg.torch.onnx.fx_node` and `pkg.torch.onnx.name_scopes` of
// the node that it became tell it. Names are in lower case and have '_' for '.', as
// torch.export writes them.
struct TorchCall {
  std::string target;                 // "aten.linear.default"
  std::vector<std::string> arguments; // "%x", "[32]", "None"; nothing if some have names
  std::set<std::string> parameters;   // operands that the program trains
  bool ofLookups = false;             // all operands are what embeddings and slices gave
  std::vector<std::string> scopes;    // modules around the call, the innermost last
};

class TorchNames {
public:
  explicit TorchNames(const Model &model);

  // Whether the stored tensor is one that the program trains; a buffer, which it does
  // not; neither is known of a file without metadata, or of a folded tensor.
  bool isParameter(unsigned tensor) const;
  bool isBuffer(unsigned tensor) const;
  // Whether the stored tensor has the name of a parameter or buffer, in a file that does not
  // say which of them it is: torch.onnx without dynamo keeps these names.
  bool isState(unsigned tensor) const;
  // Whether the stored tensor that `user` reads holds what an embedding or a slice gave at
  // constant places: rows of a table that the program trains. Rows that are all equal are none.
  bool isLookup(unsigned tensor, const ::onnx::NodeProto &user) const;

  // Whether the file says which call of the program a node was.
  bool knows(const ::onnx::NodeProto &node) const { return callOf(node); }
  // Whether the node may read a parameter: unless its call is known, and none is in it.
  bool mayRead(const ::onnx::NodeProto &node) const {
    const TorchCall *call = callOf(node);
    return !call || !call->parameters.empty();
  }
  // Whether the node was an elementwise call of a value and one parameter.
  bool readsOneParameter(const ::onnx::NodeProto &node) const;
  // Whether the node was a product with a weight of a module, which the stored tensor is then,
  // whatever the file calls it.
  bool isWeight(unsigned tensor, const ::onnx::NodeProto &user) const;
  // Whether a norm that `user` became had no such operand in the program (1: scale, 2: bias): the
  // exporter filled in ones or zeros.
  bool lacks(const ::onnx::NodeProto &user, size_t operand) const;
  // Whether torch.onnx without dynamo wrote the tensor as a node, as it does with what stands
  // where a module has no parameter: ones for a norm's scale, zeros for its bias.
  bool isWritten(unsigned tensor) const;
  // Whether nodes say which calls they come from.
  bool hasCalls() const { return !calls_.empty(); }
  const TorchCall *callOf(const ::onnx::NodeProto &node) const;
  const std::map<const ::onnx::NodeProto *, TorchCall> &calls() const { return calls_; }
  // All parameters that torch.export lists in the file: as calls name them, and their names.
  const std::vector<std::pair<std::string, std::string>> &program() const { return program_; }
  // A name as torch.export writes it in calls.
  static std::string mangled(llvm::StringRef name);
  // Whether the exporter is one that tells which nodes share a parameter.
  bool tracks() const { return scripted_ || !calls_.empty(); }
  // Whether two nodes read one parameter; nothing where that is not known.
  std::optional<bool> sameParameter(const ::onnx::NodeProto &a, const ::onnx::NodeProto &b) const;

  // What the program calls the stored tensor that `user` reads as `suffix` (weight or bias):
  // empty where it is not known.
  std::string nameOf(const ::onnx::NodeProto &user, llvm::StringRef suffix) const;
  // Whether a name is one that the exporter made up for a folded tensor.
  static bool isMadeUp(llvm::StringRef name);
  // Whether the program's call holds the transpose of the matrix that `user` multiplies by.
  bool isTransposed(const ::onnx::NodeProto &user) const;

private:
  void readSignature(const Model &model);

  const Model &model_;
  // By torch.onnx without dynamo, which stores equal tensors of several names once, with an
  // Identity for each further name: under one name there is one parameter.
  bool scripted_ = false;
  bool keepsStates_ = false; // by torch.onnx without dynamo, which writes numbers as Constant
  std::map<const ::onnx::NodeProto *, TorchCall> calls_;
  std::vector<std::pair<std::string, std::string>> program_;
  llvm::StringMap<std::string> fullNames_; // of the program's parameters, by what calls name them
  llvm::StringSet<> parameters_, buffers_; // of all calls, and of the program's signature
  llvm::StringSet<> stored_;               // mangled, by what the file has
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_TORCHNAMES_H
