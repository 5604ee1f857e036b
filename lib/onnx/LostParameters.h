// Parameters of an exported program that its file no longer holds.
#ifndef LLMC_LIB_ONNX_LOSTPARAMETERS_H
#define LLMC_LIB_ONNX_LOSTPARAMETERS_H

#include "lib/onnx/Argument.h"
#include "lib/onnx/ParameterNames.h"
#include "lib/onnx/TorchNames.h"

namespace llmc::onnximport {

// The names, in the program's order, of the parameters that torch.export lists in the file and
// that no trained parameter stands for, by the calls that its nodes tell: the exporter folded them
// into constants, or nothing uses them. Nothing of a file that holds no tensors but the program's
// own, or that lists none.
std::vector<std::string> lostParameters(const Model &model, const TorchNames &names,
                                        const Arguments &arguments,
                                        const std::map<Source, ParameterName> &sourceNames);
// What a reader should know of them; nothing if there are none.
std::string describeLost(const std::vector<std::string> &lost);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_LOSTPARAMETERS_H
