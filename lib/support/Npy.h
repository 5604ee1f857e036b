// Reads and writes NumPy's .npy files. Tests: test/runtime/FilesTest.cpp.
#ifndef LLMC_LIB_SUPPORT_NPY_H
#define LLMC_LIB_SUPPORT_NPY_H

#include "lib/support/ElementType.h"
#include "lib/support/Error.h"
#include "lib/support/File.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace llmc::support {

// Represents a little-endian array; its bytes stay mapped. One in Fortran order, which NumPy
// writes for transposed and for repeated arrays, is copied to C order.
class NpyFile {
public:
  static Result<NpyFile> open(const std::string &path);

  ElementType type() const { return type_; }
  const std::vector<int64_t> &shape() const { return shape_; }
  const void *data() const {
    return turned_.empty() ? file_.bytes().data() + offset_ : turned_.data();
  }
  // Returns the offset of the elements in the file, for reading parts of it; meaningless for a
  // turned() array, whose C-ordered elements are in memory only.
  size_t offset() const { return offset_; }
  bool turned() const { return !turned_.empty(); }
  const std::string &path() const { return file_.path(); }

private:
  explicit NpyFile(MappedFile file) : file_(std::move(file)) {}
  Status readHeader();
  void turn();

  MappedFile file_;
  ElementType type_ = ElementType::F32;
  std::vector<int64_t> shape_;
  size_t offset_ = 0;
  std::vector<std::byte> turned_; // in C order; empty if the file is
};

// Writes an array of dense `bytes` in C order, under a temporary name that is then renamed. An
// error for a type that NumPy lacks (BF16, F8..., F4) or a wrong number of bytes.
Status writeNpy(const std::string &path, ElementType type, const std::vector<int64_t> &shape,
                std::span<const std::byte> bytes);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_NPY_H
