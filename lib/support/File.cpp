#include "lib/support/File.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llmc::support;

Result<ReadableFile> ReadableFile::open(const std::string &path) {
  ReadableFile file;
  file.path_ = path;
  // A pipe that nobody writes to would hold open() for ever; regular files ignore this.
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

Result<OutputFile> OutputFile::create(const std::string &path, bool executable) {
  // rename() would replace a special file such as /dev/null by a plain one.
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return error("cannot write '", path, "': not a regular file");
  OutputFile file;
  file.path_ = path;
  file.temporary_ = text(path, ".tmp.", ::getpid());
  file.fd_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                    executable ? 0777 : 0666);
  if (file.fd_ < 0)
    return error("cannot write '", path, "': ", std::strerror(errno));
  return file;
}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)) {}

OutputFile::~OutputFile() {
  if (fd_ < 0)
    return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status OutputFile::write(const void *data, size_t size) {
  const char *at = static_cast<const char *>(data);
  while (size > 0) {
    ssize_t done = ::write(fd_, at, size);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return error("cannot write '", path_, "': ", std::strerror(errno));
    at += done;
    size -= static_cast<size_t>(done);
  }
  return ok();
}

Status OutputFile::commit() {
  int fd = std::exchange(fd_, -1);
  bool good = ::close(fd) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0;
  if (good)
    return ok();
  int why = errno;
  ::unlink(temporary_.c_str());
  return error("cannot write '", path_, "': ", std::strerror(why));
}

Status llmc::support::makeDirectory(const std::string &path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code)
    return error("cannot make the folder '", path, "': ", code.message());
  return ok();
}
