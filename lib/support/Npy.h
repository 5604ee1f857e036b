// Reader and writer of NumPy's .npy files.
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

// A little-endian array; its bytes stay mapped. One in Fortran order, which NumPy
// writes for transposed and for repeated arrays, is turned to C order.
class NpyFile {
public:
  static Result<NpyFile> open(const std::string &path);

  ElementType type() const { return type_; }
  const std::vector<int64_t> &shape() const { return shape_; }
  const void *data() const { return turned_.empty() ? file_.bytes().data() + offset_ : turned_.data(); }
  // Where the elements begin in the file, for those who read parts of it; not of an
  // array that was turned, whose elements are in memory alone.
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
  std::vector<std::byte> turned_; // in C order, if the file is not
};

// Writes an array of dense `bytes` in C order, under a temporary name that is
// then renamed. NumPy has no bfloat16.
Status writeNpy(const std::string &path, ElementType type, const std::vector<int64_t> &shape,
                std::span<const std::byte> bytes);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_NPY_H
