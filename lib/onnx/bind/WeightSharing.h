// Equal parameters that a file stores once: which uses share one.
#ifndef LLMC_LIB_ONNX_BIND_WEIGHTSHARING_H
#define LLMC_LIB_ONNX_BIND_WEIGHTSHARING_H

#include "lib/onnx/bind/Argument.h"
#include "lib/onnx/file/TorchNames.h"

namespace llmc::onnximport {

// An exporter of a model that was just initialised stores equal parameters (scales of
// ones, biases of zeros) once. Unless the options say `exact`, they are told apart by what
// it left of their names; where it left nothing, a vector, or a matrix that is filled with
// one number, is a parameter for each node that learns it, if the model's layers do not share
// matrices too.
class WeightSharing {
public:
  WeightSharing(const Model &model, const TorchNames &names, Arguments &arguments, bool splits)
      : model_(model), names_(names), arguments_(arguments), splits_(splits) {}

  // A table and a head that the file stores once are two parameters.
  void untie(unsigned table) { untied_ = table; }
  // The argument that a use shares, or null, and how many of equal views there are.
  // `learns` says that the use is one of a parameter.
  std::pair<Argument *, unsigned> find(const View &view, Role role, const ::onnx::NodeProto *user,
                                       bool learns) const;
  // Decides whether vectors that are told apart by their uses alone stay so, and says what
  // became of tensors that several parameters had; nothing where none had.
  std::string settle(mlir::Block &body);

  // Whether the elements of a stored tensor differ.
  bool varies(unsigned tensor) const;

private:
  bool isVector(unsigned tensor) const;
  bool isDrawn(unsigned tensor) const;
  bool areTwoNames(const View &a, const View &b) const;
  bool isAnother(const Argument &argument, const View &view, Role role,
                 const ::onnx::NodeProto *user, bool learns) const;
  std::string sharedMatrix() const;
  void join(mlir::Block &body);

  const Model &model_;
  const TorchNames &names_;
  Arguments &arguments_;
  std::optional<unsigned> untied_; // the table that is no head
  bool splits_;                    // equal parameters that the file stores once are told apart
};

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_WEIGHTSHARING_H
