// Embedding tables and the matrices of the logits that hold equal elements.
#ifndef LLMC_LIB_ONNX_TYING_H
#define LLMC_LIB_ONNX_TYING_H

#include "lib/onnx/NodeOrder.h"
#include "lib/onnx/View.h"

namespace llmc::onnximport {

// The stored matrices of the logits that hold the elements of `table`, the one perhaps
// transposed: each as a view of it.
std::map<unsigned, View> tiedHeads(const Model &model, const NodeOrder &order, unsigned table);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_TYING_H
