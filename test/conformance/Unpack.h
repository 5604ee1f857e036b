// Converts inputs and outputs of a case that are no tensors of numbers: sequences become their
// elements, strings constants.
#ifndef LLMC_TEST_CONFORMANCE_UNPACK_H
#define LLMC_TEST_CONFORMANCE_UNPACK_H

#include "NodeCase.h"

#include <filesystem>

namespace llmc::test {

// Reads the file (input_0.pb, ...) of an input or output of type `type` into tensors: one, or
// those of a sequence, also of an optional one.
support::Result<std::vector<::onnx::TensorProto>> readBorder(const std::filesystem::path &file,
                                                             const ::onnx::TypeProto &type);

// Reads all inputs and outputs of a folder of the suite. An input NAME that is a sequence of n
// becomes the inputs NAME#0 ... NAME#n-1 and a SequenceConstruct, and an output likewise with
// SequenceAt; an input of strings becomes an initializer, after which there is at least one.
struct Unpacked {
  std::vector<::onnx::TensorProto> inputs, outputs;
  bool hasStrings = false;
};
support::Result<Unpacked> unpack(::onnx::GraphProto &graph, const std::filesystem::path &folder);

} // namespace llmc::test

#endif // LLMC_TEST_CONFORMANCE_UNPACK_H
