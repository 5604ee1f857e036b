// Finds the bulk data of an ONNX file without reading it.
#ifndef LLMC_LIB_ONNX_FILE_WIRESCAN_H
#define LLMC_LIB_ONNX_FILE_WIRESCAN_H

#include "lib/support/Error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace llmc::onnximport {

// Where a tensor's elements lie in a file, one little-endian array.
struct ByteRange {
  uint64_t offset = 0, size = 0;
};

// The file, a ModelProto, without the elements of its tensors. A tensor whose
// elements are one array, at any depth of subgraphs and functions, has in
// `raw_data` the place of the array: read it with `placeOf`.
struct ScannedFile {
  std::string skeleton;
};

// Protobuf itself copies every byte and stops at 2 GiB; the walk does neither.
// Fails on anything that is not a sequence of well-formed fields.
support::Result<ScannedFile> scanWire(std::span<const std::byte> file);

// What stands in `raw_data` of the skeleton.
ByteRange placeOf(std::string_view rawData);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_WIRESCAN_H
