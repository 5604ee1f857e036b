// Reads files, mapped or in parts; OutputFile.h writes them. Tests: test/runtime/FilesTest.cpp.
#ifndef LLMC_LIB_SUPPORT_FILE_H
#define LLMC_LIB_SUPPORT_FILE_H

#include "lib/support/Error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace llmc::support {

// Owns a read-only mapping of a file.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  size_t size() const { return size_; }
  const std::string &path() const { return path_; }

private:
  MappedFile() = default;
  const std::byte *data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

// Owns an open file that is read in parts, as large ones should be: only the parts asked for are
// read, and a file that shrinks is an error where a mapping would crash.
class ReadableFile {
public:
  static Result<ReadableFile> open(const std::string &path);
  ReadableFile(ReadableFile &&other) noexcept;
  ReadableFile &operator=(ReadableFile &&other) noexcept;
  ~ReadableFile();

  // Reads exactly `size` bytes from `offset` on; an error if the file ends before. Threads may
  // read at once.
  Status read(uint64_t offset, void *to, size_t size) const;
  uint64_t size() const { return size_; }
  const std::string &path() const { return path_; }

private:
  friend class MappedFile;
  ReadableFile() = default;
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string path_;
};

// Returns the content of a regular file.
Result<std::string> readFile(const std::string &path);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_FILE_H
