// Chooses names for trained parameters: here, and in the program that was exported.
// Tested by test/import/Exports.cpp and Programs.cpp.
#ifndef LLMC_LIB_ONNX_BIND_PARAMETERNAMES_H
#define LLMC_LIB_ONNX_BIND_PARAMETERNAMES_H

#include "lib/onnx/bind/ParameterArgument.h"
#include "lib/onnx/file/TorchNames.h"

namespace llmc::onnximport {

// Holds the names of one parameter.
struct ParameterName {
  std::string name;        // of its source; unique
  std::string lost;        // the program's name, if the file does not use it for this tensor
  bool transposed = false; // the program holds the transpose
  // Identifies the parameter by a node that reads it if the program's name is unknown:
  // "operand 1 of node 'node_MatMul_5' (MatMul)".
  std::string layout;
};

// Returns the names of all sources of `arguments`. Of several parameters that share a stored
// tensor, the one with the tensor's name in the program keeps that name; the others get the
// program's names, or NAME#2, NAME#3, ...
std::map<ParameterSource, ParameterName> nameParameters(const Model &model, const TorchNames &names,
                                               const ParameterArguments &arguments);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_PARAMETERNAMES_H
