// An argument of the function: the part of a stored tensor that it holds.
#ifndef LLMC_LIB_ONNX_BIND_ARGUMENT_H
#define LLMC_LIB_ONNX_BIND_ARGUMENT_H

#include "dialects/graph/Build.h"
#include "lib/onnx/bind/View.h"

#include <set>
#include <tuple>

namespace llmc::onnximport {

// What a use says about a tensor. Plain uses alone leave it a constant. Beside: it meets an
// activation, and neither its shape nor its elements say that it is a table.
enum class Role { Plain, Table, Weight, Bias, Scale, Beside };

// A parameter's first values: a stored tensor, which may hold those of several equal
// parameters (WeightSharing); `copy` counts them from 0.
struct Source {
  unsigned tensor = 0, copy = 0;
  bool operator<(const Source &other) const {
    return std::tie(tensor, copy) < std::tie(other.tensor, other.copy);
  }
};

struct Argument {
  View view;
  std::set<Role> roles;
  mlir::BlockArgument value;
  std::set<const ::onnx::NodeProto *> learners; // nodes that say it is a parameter
  unsigned copy = 0;

  Source source() const { return {view.tensor, copy}; }
};
using Arguments = std::vector<std::unique_ptr<Argument>>;

inline Shape pick(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> dims) {
  Shape out;
  for (int64_t d : dims)
    out.push_back(from[d]);
  return out;
}

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_ARGUMENT_H
