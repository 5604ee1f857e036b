// Files that are written. What exists stays as it was until all that takes its place
// is on the disk; devices and pipes are written directly and never renamed over.
#ifndef LLMC_LIB_SUPPORT_OUTPUTFILE_H
#define LLMC_LIB_SUPPORT_OUTPUTFILE_H

#include "lib/support/Error.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace llmc::support {

// A whole file. A regular one is made beside its target as TARGET.tmp.PID and takes
// its place with commit(); if commit() fails or is never reached it is removed, and
// what was there stays. A symbolic link stays one: the file that it points to is
// replaced. /dev/stdout, /dev/fd/N and what else names an open descriptor is written
// where that descriptor stands. A named pipe waits a few seconds for its reader.
class OutputFile {
public:
  static Result<OutputFile> create(const std::string &path, bool executable = false);
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&) = delete;
  ~OutputFile();

  Status write(const void *data, size_t size);
  Status write(std::string_view bytes) { return write(bytes.data(), bytes.size()); }
  Status commit();

private:
  OutputFile() = default;
  void removeTemporary();
  int fd_ = -1;
  std::string path_, target_, temporary_; // no temporary: written directly
};

// Removes what all OutputFiles have begun: for a process that ends at once.
void removeTemporaries();

// A whole file in one piece.
Status writeFile(const std::string &path, std::string_view bytes);

// A file that grows line by line, each written at once: for those who follow it. A
// disk that is full leaves no half line; what could not be written is kept and goes
// out with the next line.
class LineFile {
public:
  // An existing regular file that is not empty is an error without `replace`. It is made
  // or emptied by the first flush(), and from then on locked: a file that another process
  // follows so is an error of both.
  static Result<LineFile> open(const std::string &path, bool replace);
  LineFile(LineFile &&other) noexcept;
  LineFile &operator=(LineFile &&other) noexcept;
  ~LineFile();

  // `line` without its end. An error if not all lines are written.
  Status append(std::string_view line);
  Status flush();

private:
  LineFile() = default;
  Status begin(); // of a regular file
  int fd_ = -1;
  bool regular_ = false;
  std::string path_, pending_;
};

// Whether `path` can be written, as far as can be told without touching what is there:
// better known at the start than after hours.
Status checkWritable(const std::string &path);

// What a write to `path` goes to: the path with all its links followed, also the last,
// whether it exists or not.
Result<std::string> followLinks(const std::string &path);

// The open descriptor of this process that `path` names, as /dev/stdout does; -1: none.
int namedDescriptor(const std::string &path);

// A folder that one process at a time may hold: two that write the same files there would
// undo each other's work.
class FolderLock {
public:
  static Result<FolderLock> take(const std::string &path);
  FolderLock(FolderLock &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~FolderLock();

private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// Makes `path` and its parents where missing.
Status makeDirectory(const std::string &path);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_OUTPUTFILE_H
