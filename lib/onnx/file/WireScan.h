// Finds the bulk data of an ONNX file without reading it. Tested by test/import/Folding.cpp.
#ifndef LLMC_LIB_ONNX_FILE_WIRESCAN_H
#define LLMC_LIB_ONNX_FILE_WIRESCAN_H

#include "lib/support/Error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace llmc::onnximport {

// Locates a tensor's elements in a file, one little-endian array: offset and size in bytes.
struct ByteRange {
  uint64_t offset = 0, size = 0;
};

// Holds the file, a serialized ModelProto, without the elements of its tensors. The `raw_data` of
// a tensor whose elements are one array, at any depth of subgraphs and functions, holds the range
// of the array instead, for `rangeFromSkeleton`.
struct ScannedFile {
  std::string skeleton;
};

// Scans the fields of a file; protobuf itself would copy every byte and stop at 2 GiB. Fails if
// the file is not a sequence of well-formed fields.
support::Result<ScannedFile> scanWire(std::span<const std::byte> file);

// Returns the range that `raw_data` of the skeleton holds.
ByteRange rangeFromSkeleton(std::string_view rawData);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_WIRESCAN_H
