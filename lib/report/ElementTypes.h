// Tells the element type of each kind of tensor in a plan, by walking it. Test:
// test/numerics/precision.py (dtypes).
#ifndef LLMC_LIB_REPORT_ELEMENTTYPES_H
#define LLMC_LIB_REPORT_ELEMENTTYPES_H

#include "lib/planfile/Program.h"

#include <string>
#include <utility>
#include <vector>

namespace llmc::report {

// Lists the roles that the plan has, each with its type: "fp32", "bf16", ...; "bf16, fp32" if its
// tensors differ.
//   weights, masters, moments, gradients   states; gradients are the accumulators
//   loss                                   sums of the step: of the loss, of tokens
//   activations, statistics                what products of parameters give in the forward pass; what
//                                          norms and softmaxes keep
//   messages                               what stages send
//   tensor_sums                            products whose parts ranks add, forward and backward
//   gradient_sums                          reductions of gradients over the data axes
//   results                                outputs of an inference
using TypesByRole = std::vector<std::pair<std::string, std::string>>;
TypesByRole elementTypesOf(const planfile::ProgramT &program);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_ELEMENTTYPES_H
