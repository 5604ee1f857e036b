// What the elements of a stored tensor tell about it: tables that are computed are never
// learned.
#ifndef LLMC_LIB_ONNX_BIND_TABLES_H
#define LLMC_LIB_ONNX_BIND_TABLES_H

#include "lib/onnx/file/HostTensor.h"

namespace llmc::onnximport {

// Whether the elements are all the same.
bool isUniform(const HostTensor &tensor);
// Whether they follow a formula as those of masks, of positions, and of the sines, cosines
// and frequencies of rotary positions do. What was just initialised may be uniform, and
// is no table then; neither are one or two elements.
bool isTable(const HostTensor &tensor);
// The same but for masks: whether they are sines, cosines or frequencies.
bool isWave(const HostTensor &tensor);
// Whether the elements are evenly spaced along the last dim, as distances are.
bool isLinear(const HostTensor &tensor);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_TABLES_H
