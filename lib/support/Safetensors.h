// Reads and writes safetensors files: u64 length of the header, JSON header {name: {dtype, shape,
// data_offsets}}, then the data. Tests: test/runtime/FilesTest.cpp.
#ifndef LLMC_LIB_SUPPORT_SAFETENSORS_H
#define LLMC_LIB_SUPPORT_SAFETENSORS_H

#include "lib/support/ElementType.h"
#include "lib/support/Error.h"
#include "lib/support/File.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llmc::support {

// Represents a tensor of a file; `data` points into the mapping.
struct TensorView {
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  const std::byte *data = nullptr;
  size_t byteSize = 0;
  size_t fileOffset = 0; // of the data, from the start of the file
};

// Represents one file. open() has checked every offset and size, and that the tensors cover the
// data without gaps or overlap; it has not read the data.
class SafetensorsFile {
public:
  static Result<SafetensorsFile> open(const std::string &path);

  const std::map<std::string, TensorView, std::less<>> &tensors() const { return tensors_; }
  const std::map<std::string, std::string> &metadata() const { return metadata_; }
  const std::string &path() const { return file_.path(); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }

private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}
  Status readHeader();
  Status checkPlaces(size_t begin) const; // `begin`: offset of the data

  MappedFile file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Identifies the index file, which maps each tensor to its file of the folder.
constexpr std::string_view kSafetensorsIndex = "model.safetensors.index.json";

// Holds all tensors of a file, of the files that an index names, or of a folder: those that its
// index names, else every *.safetensors.
class SafetensorsSet {
public:
  static Result<SafetensorsSet> open(const std::string &path);

  const TensorView *find(std::string_view name) const;
  std::vector<std::string> names() const;
  const std::vector<SafetensorsFile> &files() const { return files_; }
  // Returns the file that holds `name`, or null.
  const SafetensorsFile *fileOf(std::string_view name) const;

private:
  std::vector<SafetensorsFile> files_;
  std::unordered_map<std::string_view, size_t> fileByName_; // index into files_
};

// Describes a tensor to write: its bytes are requested, one tensor at a time, only when its
// position in the file is reached.
struct TensorToWrite {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  // Passes exactly the tensor's bytes to `sink`, in one or more calls.
  using Sink = std::function<Status(const void *, size_t)>;
  std::function<Status(const Sink &)> produce;
};

// Writes under a temporary name and renames. An error if a name occurs twice, or `produce` fails
// or passes another number of bytes.
Status writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors,
                        const std::map<std::string, std::string> &metadata = {});

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_SAFETENSORS_H
