// What trained parameters are called, here and in the program that was exported.
#ifndef LLMC_LIB_ONNX_BIND_PARAMETERNAMES_H
#define LLMC_LIB_ONNX_BIND_PARAMETERNAMES_H

#include "lib/onnx/bind/Argument.h"
#include "lib/onnx/file/TorchNames.h"

namespace llmc::onnximport {

struct ParameterName {
  std::string name;        // unique
  std::string lost;        // the program's name, where the file has another tensor's or none
  bool transposed = false; // the program holds the transpose under it
  // Where the file has lost the program's name: which node reads the parameter, and as what.
  std::string layout;
};

std::map<Source, ParameterName> nameParameters(const Model &model, const TorchNames &names,
                                               const Arguments &arguments);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_PARAMETERNAMES_H
