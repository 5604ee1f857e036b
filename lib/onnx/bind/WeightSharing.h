// Decides which uses of a stored tensor share a parameter. Tested by test/import/Exports.cpp.
#ifndef LLMC_LIB_ONNX_BIND_WEIGHTSHARING_H
#define LLMC_LIB_ONNX_BIND_WEIGHTSHARING_H

#include "lib/onnx/bind/ParameterArgument.h"
#include "lib/onnx/file/TorchNames.h"

namespace llmc::onnximport {

// Separates equal parameters: an exporter stores those of a freshly initialized model (scales of
// ones, biases of zeros) once. With `splits` (not --tie exact) they are separated by what is left
// of their names; if nothing is left, a vector, or a matrix that is filled with one number, is
// one parameter for each node that learns it, unless the model's layers share matrices too.
class WeightSharing {
public:
  WeightSharing(const Model &model, const TorchNames &names, ParameterArguments &arguments,
                bool splits)
      : model_(model), names_(names), arguments_(arguments), splits_(splits) {}

  // Makes the table and the head two parameters even if the file stores them once.
  void untie(unsigned table) { untied_ = table; }
  // Returns the argument that a use shares, or null, and the number of arguments with an equal
  // view. `learns` states that the use shows a parameter.
  std::pair<ParameterArgument *, unsigned> find(const View &view, UseKind role,
                                                const ::onnx::NodeProto *user, bool learns) const;
  // Merges the vectors that were separated by their uses alone if layers share a matrix too.
  // Returns the note to the user about tensors of several parameters, "" if there are none.
  std::string resolveSharing(mlir::Block &body);

  // Returns whether the elements of a stored tensor differ; false if they are not one array of
  // a file.
  bool varies(unsigned tensor) const;

private:
  bool isVector(unsigned tensor) const;
  bool isDrawn(unsigned tensor) const;
  bool areTwoNames(const View &a, const View &b) const;
  bool isAnother(const ParameterArgument &argument, const View &view, UseKind role,
                 const ::onnx::NodeProto *user, bool learns) const;
  std::string sharedMatrix() const;
  void join(mlir::Block &body);

  const Model &model_;
  const TorchNames &names_;
  ParameterArguments &arguments_;
  std::optional<unsigned> untied_; // the table that is separate from the head
  bool splits_;                    // equal parameters that the file stores once are separated
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_WEIGHTSHARING_H
