// Reads which tensors a model's file holds under which names and, in an ONNX file, which node
// reads them: a second, minimal reader of the bytes themselves that shares no code with the
// importers or the runtime's reader of weights. Tested by test/verify/FileTensorsTest.cpp
// and StateChecksTest.cpp.
#ifndef LLMC_LIB_VERIFY_SOURCE_FILETENSORS_H
#define LLMC_LIB_VERIFY_SOURCE_FILETENSORS_H

#include "lib/support/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace llmc::verify {

// Identifies plain float types; elements of other types are not compared.
enum class FileType { F32, F64, F16, BF16, Other };

// Locates one tensor in a file.
struct FileTensor {
  std::string name, path; // `path` of the file with its bytes
  uint64_t offset = 0;
  std::vector<int64_t> shape;
  FileType type = FileType::Other;

  // Returns the number of elements.
  int64_t count() const;
};

// Describes one node of an ONNX graph.
struct FileNode {
  std::string name, op;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, int64_t> numbers; // attributes that are one integer
};

// Holds the tensors and nodes of all files of a model.
struct FileModel {
  std::vector<FileTensor> tensors; // a name may occur in several files
  std::vector<FileNode> nodes;     // of the main graph, in the file's order

  // Returns the first tensor with that name, or beginning at that byte, or null.
  const FileTensor *find(const std::string &name) const;
  const FileTensor *at(const std::string &path, uint64_t offset) const;
};

// Adds the tensors (and nodes) of one file, whose format its extension selects: .onnx or
// .safetensors; other files have none. Fails if the file or its header cannot be read.
support::Status addFile(const std::string &path, FileModel &model);

// Returns elements [first, first + count) as the file has them, in double. Fails if the file is
// too short or the type is Other.
support::Result<std::vector<double>> readElements(const FileTensor &tensor, int64_t first,
                                                  int64_t count);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SOURCE_FILETENSORS_H
