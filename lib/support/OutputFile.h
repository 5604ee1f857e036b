// Writes files. What exists stays as it was until all that replaces it is on the disk; devices
// and pipes are written directly and never renamed over. Tests: test/runtime/OutputsTest.cpp.
#ifndef LLMC_LIB_SUPPORT_OUTPUTFILE_H
#define LLMC_LIB_SUPPORT_OUTPUTFILE_H

#include "lib/support/Error.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace llmc::support {

// Writes a whole file. A regular one is made beside its target as TARGET.tmp.PID and replaces it
// with commit(); if commit() fails or is never reached the temporary is removed, and the old file
// stays. A symbolic link is kept: the file that it points to is replaced. /dev/stdout, /dev/fd/N
// and whatever else names an open descriptor is written at that descriptor's position. A named
// pipe waits up to 10 seconds for its reader.
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

// Removes the temporaries of all OutputFiles, for a process that is about to end: a thread that makes
// another one waits for that end. Takes a lock: not for a signal handler.
void removeTemporaries();

// Writes a whole file in one piece.
Status writeFile(const std::string &path, std::string_view bytes);

// Appends lines to a file, each written at once, for readers that follow it. A full disk leaves
// no half line; what could not be written is kept and goes out with the next line.
class LineFile {
public:
  // Opens the file. An existing regular file that is not empty is an error without `replace`. It
  // is created or emptied by the first flush(), and from then on locked: if another process holds
  // the lock, that is an error.
  static Result<LineFile> open(const std::string &path, bool replace);
  LineFile(LineFile &&other) noexcept;
  LineFile &operator=(LineFile &&other) noexcept;
  ~LineFile();

  // Appends `line`, given without its end. An error if not all lines are written.
  Status append(std::string_view line);
  Status flush();

private:
  LineFile() = default;
  Status begin(); // opens, locks and empties a regular file
  int fd_ = -1;
  bool regular_ = false;
  std::string path_, pending_;
};

// Checks whether `path` can be written, as far as can be told without touching what is there, so
// that a long run fails at its start.
Status checkWritable(const std::string &path);

// Returns the file that a write to `path` goes to: the path with all its links followed, also the
// last, whether it exists or not.
Result<std::string> followLinks(const std::string &path);

// Returns the open descriptor of this process that `path` names, as /dev/stdout does; -1 if none.
int namedDescriptor(const std::string &path);

// Locks a folder for this process, for two that write the same files there would overwrite each
// other's. take() fails if another process holds the lock.
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
