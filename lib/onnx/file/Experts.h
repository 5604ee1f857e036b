// Whether a graph is a mixture of experts.
#ifndef LLMC_LIB_ONNX_FILE_EXPERTS_H
#define LLMC_LIB_ONNX_FILE_EXPERTS_H

#include "lib/onnx/file/NodeOrder.h"

namespace llmc::onnximport {

// Refuses a graph in which the largest of some computed scores decide what later
// matrix products work on, however the choice is written (gathered weights, sorted
// tokens, one-hot masks). Names the nodes that choose.
support::Status checkExperts(const Model &model, const NodeOrder &order);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_EXPERTS_H
