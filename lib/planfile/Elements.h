// Maps element types of a plan to those of files (lib/support/ElementType.h). Tests:
// test/runtime/PlanFileTest.cpp (BoundsOfQuantisedSources), test/runtime/WeightsTest.cpp.
#ifndef LLMC_LIB_PLANFILE_ELEMENTS_H
#define LLMC_LIB_PLANFILE_ELEMENTS_H

#include "lib/planfile/plan_generated.h"
#include "lib/support/ElementType.h"

namespace llmc::planfile {

constexpr support::ElementType elementType(DType type) {
  switch (type) {
  case DType::F32:
    return support::ElementType::F32;
  case DType::F64:
    return support::ElementType::F64;
  case DType::F16:
    return support::ElementType::F16;
  case DType::BF16:
    return support::ElementType::BF16;
  case DType::I64:
    return support::ElementType::I64;
  case DType::I32:
    return support::ElementType::I32;
  case DType::I1:
    return support::ElementType::Bool;
  case DType::U8:
    return support::ElementType::U8;
  }
  return support::ElementType::F32; // checkBounds() lets no other value pass
}

// Returns the element type of a source tensor's bytes in its file.
inline support::ElementType elementType(const SourceTensorT &source) {
  switch (source.coding) {
  case Coding::Plain:
    return elementType(source.dtype);
  case Coding::Float8E4M3:
    return support::ElementType::F8E4M3;
  case Coding::Float8E5M2:
    return support::ElementType::F8E5M2;
  case Coding::Float4E2M1:
    return support::ElementType::F4E2M1;
  }
  return support::ElementType::F32; // checkBounds() lets no other value pass
}
// Returns the shape that the file holds: that of the transpose for a transposed matrix.
inline std::vector<int64_t> storedShape(const SourceTensorT &source) {
  std::vector<int64_t> shape = source.shape;
  if (source.transposed && shape.size() == 2)
    std::swap(shape[0], shape[1]);
  return shape;
}
// Returns the element type of a quantized tensor's scales; U8 is a power of two (F8E8M0).
inline support::ElementType elementType(const ScalesT &scales) {
  return scales.dtype == DType::U8 ? support::ElementType::F8E8M0 : elementType(scales.dtype);
}

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_ELEMENTS_H
