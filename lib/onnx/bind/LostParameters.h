// Finds parameters of an exported program that its file no longer holds, or holds in another
// form. Tested by test/import/Programs.cpp.
#ifndef LLMC_LIB_ONNX_BIND_LOSTPARAMETERS_H
#define LLMC_LIB_ONNX_BIND_LOSTPARAMETERS_H

#include "lib/onnx/bind/ParameterArgument.h"
#include "lib/onnx/bind/ParameterNames.h"
#include "lib/onnx/file/TorchNames.h"

namespace llmc::onnximport {

// Returns the names, in the program's order, of the parameters that torch.export lists in the
// file and that no argument corresponds to, according to the calls that its nodes record: the
// exporter folded them into constants, or nothing uses them. Returns none for a file that lists
// none, or whose float tensors all have names of the program.
std::vector<std::string>
lostParameters(const Model &model, const TorchNames &names, const ParameterArguments &arguments,
               const std::map<ParameterSource, ParameterName> &sourceNames);
// Returns the note to the user about lost parameters, "" if there are none.
std::string describeLost(const std::vector<std::string> &lost);

// Returns the names of trained tensors that the exporter computed from parameters (1 - w, a
// concatenated matrix): their gradients need not be those of the parameters. Excludes tensors
// that it only transposed or reshaped; for operands of a product, only if the module has one
// weight.
std::vector<std::string>
derivedParameters(const Model &model, const TorchNames &names, const ParameterArguments &arguments,
                  const std::map<ParameterSource, ParameterName> &sourceNames);
// Returns the note to the user about tensors computed from parameters, "" if there are none.
std::string describeDerived(const std::vector<std::string> &made);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_LOSTPARAMETERS_H
