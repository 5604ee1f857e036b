// Finds the bulk data of an ONNX file without reading it.
#ifndef LLMC_LIB_ONNX_WIRESCAN_H
#define LLMC_LIB_ONNX_WIRESCAN_H

#include "lib/support/Error.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace llmc::onnximport {

// Where a tensor's elements lie in a file, one little-endian array.
struct ByteRange {
  uint64_t offset = 0, size = 0;
};

// The file without the elements of its tensors, and where those are. Tensors
// are named by position: protobuf keeps the order of repeated fields.
struct ScannedFile {
  std::string skeleton; // a ModelProto
  std::vector<std::optional<ByteRange>> initializers;
  // (node, attribute) -> elements of the attribute's tensor.
  std::map<std::pair<size_t, size_t>, ByteRange> attributes;
};

// Protobuf itself copies every byte and stops at 2 GiB; the walk does neither.
// Fails on anything that is not a sequence of well-formed fields.
support::Result<ScannedFile> scanWire(std::span<const std::byte> file);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_WIRESCAN_H
