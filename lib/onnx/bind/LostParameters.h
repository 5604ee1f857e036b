// Parameters of an exported program that its file no longer holds, or not as they were.
#ifndef LLMC_LIB_ONNX_BIND_LOSTPARAMETERS_H
#define LLMC_LIB_ONNX_BIND_LOSTPARAMETERS_H

#include "lib/onnx/bind/Argument.h"
#include "lib/onnx/bind/ParameterNames.h"
#include "lib/onnx/file/TorchNames.h"

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

// The names of trained tensors that the exporter computed from parameters (1 - w, a joined
// matrix): their gradients need not be those of the parameters. What it only turned, or gave
// another shape, is none; in a product only where the module has no other weight.
std::vector<std::string> madeParameters(const Model &model, const TorchNames &names,
                                        const Arguments &arguments,
                                        const std::map<Source, ParameterName> &sourceNames);
// What a reader should know of them; nothing if there are none.
std::string describeMade(const std::vector<std::string> &made);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_LOSTPARAMETERS_H
