// Describes the arguments of @forward that hold stored tensors or parts of them. Tested by
// test/import/Learned.cpp and SmallGraphs.cpp (Roles).
#ifndef LLMC_LIB_ONNX_BIND_PARAMETERARGUMENT_H
#define LLMC_LIB_ONNX_BIND_PARAMETERARGUMENT_H

#include "dialects/graph/Build.h"
#include "lib/onnx/bind/View.h"

#include <set>
#include <tuple>

namespace llmc::onnximport {

// Classifies a use of a stored tensor. A tensor that has Plain uses only becomes a constant.
// WithActivation: the tensor is combined with an activation, and neither its shape nor its elements
// show that it is a computed table.
enum class UseKind { Plain, Table, Weight, Bias, Scale, WithActivation };

// Identifies the initial values of a parameter: a stored tensor (index into Model::stored()),
// which may hold those of several equal parameters (WeightSharing); `copy` counts them from 0.
struct ParameterSource {
  unsigned tensor = 0, copy = 0;
  bool operator<(const ParameterSource &other) const {
    return std::tie(tensor, copy) < std::tie(other.tensor, other.copy);
  }
};

// Describes an argument of @forward and its uses.
struct ParameterArgument {
  View view;                                    // the part of the stored tensor that it holds
  std::set<UseKind> roles;                         // of all uses
  mlir::BlockArgument value;                    // dims of view.canonicalDims(), f32
  std::set<const ::onnx::NodeProto *> learningNodes; // nodes whose use shows that it is a parameter
  unsigned copy = 0;                            // as in ParameterSource

  ParameterSource source() const { return {view.tensor, copy}; }
};
using ParameterArguments = std::vector<std::unique_ptr<ParameterArgument>>;

// Returns the entries from[d] for all d in `dims`, in that order.
inline Shape selectDims(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> dims) {
  Shape out;
  for (int64_t d : dims)
    out.push_back(from[d]);
  return out;
}

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_PARAMETERARGUMENT_H
