// Checks whether strided boxes cover the integers [0, size) exactly once. Tests:
// test/planfile/CheckRandomTest.cpp.
#ifndef LLMC_LIB_PLANFILE_CHECKCOVERAGE_H
#define LLMC_LIB_PLANFILE_CHECKCOVERAGE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc::planfile {

// Represents the elements offset + sum i_k * strides[k], 0 <= i_k < shape[k].
struct StridedBox {
  int64_t offset = 0;
  std::vector<int64_t> strides, shape;
};

// Returns nullopt if every element of [0, size) lies in exactly one box, else the fault as text:
// "elements [a, b) belong to none", "... to two". Time and memory grow with the contiguous runs
// in one common period of the boxes, not with their elements; more than 2^25 runs are reported as
// a fault too.
std::optional<std::string> coverageFault(std::vector<StridedBox> boxes, int64_t size);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECKCOVERAGE_H
