// Recognizes mixtures of experts. Tested by test/import/Refusals.cpp.
#ifndef LLMC_LIB_ONNX_FILE_EXPERTS_H
#define LLMC_LIB_ONNX_FILE_EXPERTS_H

#include "lib/onnx/file/NodeOrder.h"

namespace llmc::onnximport {

// Fails for a graph with MoE ops, or in which a matrix product depends on the result of a TopK,
// however the choice is applied (gathered weights, sorted tokens, one-hot masks). The error lists
// these MoE and TopK nodes.
support::Status checkExperts(const Model &model, const NodeOrder &order);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_EXPERTS_H
