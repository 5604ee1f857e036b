// Stored matrices that hold the elements of one parameter.
#ifndef LLMC_LIB_ONNX_BIND_TYING_H
#define LLMC_LIB_ONNX_BIND_TYING_H

#include "lib/onnx/file/NodeOrder.h"
#include "lib/onnx/file/TorchNames.h"
#include "lib/onnx/bind/View.h"

namespace llmc::onnximport {

// The stored matrices of the logits that hold the elements of `table`, the one perhaps
// transposed: each as a view of it.
std::map<unsigned, View> tiedHeads(const Model &model, const NodeOrder &order, unsigned table);

// Matrices that an exporter folded from one parameter for each of its uses: all but the
// first, each as a view of the first.
std::map<unsigned, View> foldedTwice(const Model &model, const TorchNames &names);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_TYING_H
