// Finds stored matrices that hold the elements of one parameter.
// Tested by test/import/Exports.cpp and Models.cpp.
#ifndef LLMC_LIB_ONNX_BIND_TYING_H
#define LLMC_LIB_ONNX_BIND_TYING_H

#include "lib/onnx/file/NodeOrder.h"
#include "lib/onnx/file/TorchNames.h"
#include "lib/onnx/bind/View.h"

namespace llmc::onnximport {

// Maps each stored matrix that a product of the logits reads, and that holds the elements of
// `table` or their transpose, to its view of `table`.
std::map<unsigned, View> tiedHeads(const Model &model, const NodeOrder &order, unsigned table);

// Maps duplicates to their first copy: matrices that an exporter folded from one parameter, once
// for each use. Each but the first is mapped to a view of the first.
std::map<unsigned, View> findDuplicateMatrices(const Model &model, const TorchNames &names);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_TYING_H
