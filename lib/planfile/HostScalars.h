// Names the numbers that the host writes before each step of a training: the only ones that a plan
// may ask for. Test: test/passes/6-emit/WritePlanTest.cpp (Refusals).
#ifndef LLMC_LIB_PLANFILE_HOSTSCALARS_H
#define LLMC_LIB_PLANFILE_HOSTSCALARS_H

#include <string_view>

namespace llmc::planfile {

inline constexpr std::string_view kHostScalars[] = {
    "lr",   "beta1",           "beta2",           "eps", "weight_decay",
    "clip", "bias_correction1", "bias_correction2", "loss_scale"};

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_HOSTSCALARS_H
