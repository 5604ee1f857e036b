// What a model's file holds under which name, and in an ONNX file which node reads it: a
// second reading, a few lines on the bytes themselves, that shares nothing with the
// importers and with what the runtime reads weights by.
#ifndef LLMC_LIB_VERIFY_SOURCE_FILETENSORS_H
#define LLMC_LIB_VERIFY_SOURCE_FILETENSORS_H

#include "lib/support/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace llmc::verify {

// Plain floats. Elements of other types are not compared.
enum class FileType { F32, F64, F16, BF16, Other };

struct FileTensor {
  std::string name, path; // path of the file that has its bytes
  uint64_t offset = 0;
  std::vector<int64_t> shape;
  FileType type = FileType::Other;

  int64_t count() const;
};

struct FileNode {
  std::string name, op;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, int64_t> numbers; // attributes of one whole number
};

struct FileModel {
  std::vector<FileTensor> tensors; // a name may be there in several files
  std::vector<FileNode> nodes;     // of the graph itself, in the file's order

  const FileTensor *find(const std::string &name) const;
  const FileTensor *at(const std::string &path, uint64_t offset) const;
};

// Adds the tensors (and nodes) of one file; what it is says its name. Files of other kinds
// have none.
support::Status addFile(const std::string &path, FileModel &model);

// Elements [first, first + count) as the file has them, in double.
support::Result<std::vector<double>> readElements(const FileTensor &tensor, int64_t first,
                                                  int64_t count);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SOURCE_FILETENSORS_H
