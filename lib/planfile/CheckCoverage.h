// Do strided boxes cover the integers [0, size) exactly once?
#ifndef LLMC_LIB_PLANFILE_CHECKCOVERAGE_H
#define LLMC_LIB_PLANFILE_CHECKCOVERAGE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc::planfile {

// The elements offset + sum i_k * strides[k], 0 <= i_k < shape[k].
struct StridedBox {
  int64_t offset = 0;
  std::vector<int64_t> strides, shape;
};

// Nothing if every element of [0, size) lies in exactly one box, else what is
// wrong: "elements [a, b) belong to none", "... to two". Cost: the boxes' common
// period is walked, not their elements.
std::optional<std::string> coverageFault(std::vector<StridedBox> boxes, int64_t size);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECKCOVERAGE_H
