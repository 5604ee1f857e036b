#include "lib/support/File.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llmc::support;

Result<ReadableFile> ReadableFile::open(const std::string &path) {
  ReadableFile file;
  file.path_ = path;
  // Opens without blocking, for a pipe without a writer would block for ever; regular files
  // ignore the flag.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0)
    return error("cannot open '", path, "': ", std::strerror(errno));
  struct stat info;
  if (::fstat(file.fd_, &info) != 0 || !S_ISREG(info.st_mode))
    return error("cannot read '", path, "': not a regular file");
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

ReadableFile::ReadableFile(ReadableFile &&other) noexcept { *this = std::move(other); }

ReadableFile &ReadableFile::operator=(ReadableFile &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

ReadableFile::~ReadableFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Status ReadableFile::read(uint64_t offset, void *to, size_t size) const {
  char *at = static_cast<char *>(to);
  while (size > 0) {
    ssize_t done = ::pread(fd_, at, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return error("cannot read '", path_, "': ", std::strerror(errno));
    if (done == 0)
      return error("cannot read '", path_, "': it ends at byte ", offset, ", ", size,
                   " more are needed");
    at += done;
    offset += static_cast<uint64_t>(done);
    size -= static_cast<size_t>(done);
  }
  return ok();
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  Result<ReadableFile> readable = ReadableFile::open(path);
  if (!readable)
    return readable.takeError();
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<size_t>(readable->size());
  if (file.size_ != 0) {
    void *at = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, readable->fd_, 0);
    if (at == MAP_FAILED)
      return error("cannot map '", path, "': ", std::strerror(errno));
    file.data_ = static_cast<const std::byte *>(at);
  }
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_)
    ::munmap(const_cast<std::byte *>(data_), size_);
}

Result<std::string> llmc::support::readFile(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  std::span<const std::byte> bytes = file->bytes();
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}
