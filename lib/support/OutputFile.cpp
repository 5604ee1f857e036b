#include "lib/support/OutputFile.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace llmc::support;
namespace fs = std::filesystem;

namespace {

constexpr const char *kHeld = "another run is writing it";

// Holds the target of a path with its links followed.
struct Followed {
  std::string path;
  int descriptor = -1; // of this process, if the links led to one
};

Result<Followed> follow(const std::string &path) {
  const std::string own = text("/proc/", ::getpid(), "/fd");
  fs::path at = path;
  constexpr int kMostLinks = 40; // as Linux has it
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code code;
    fs::path name = at.filename();
    if (name.empty() || name == "." || name == "..")
      return Followed{fs::weakly_canonical(at, code).string()};
    fs::path parent = fs::weakly_canonical(at.has_parent_path() ? at.parent_path() : ".", code);
    if (code)
      return error("cannot write '", path, "': ", code.message());
    std::string digits = name.string();
    int descriptor = -1;
    if (parent == own &&
        std::from_chars(digits.data(), digits.data() + digits.size(), descriptor).ec == std::errc())
      return Followed{(parent / name).string(), descriptor};
    at = parent / name;
    if (!fs::is_symlink(at, code))
      return Followed{at.string()};
    fs::path to = fs::read_symlink(at, code);
    at = to.is_absolute() ? to : parent / to;
  }
  return error("cannot write '", path, "': too many symbolic links");
}

template <class... Ts> Error cannotWrite(const std::string &path, const Ts &...why) {
  return error("cannot write '", path, "': ", why...);
}

// Opens what is no regular file. A pipe without a reader is waited for, but not for ever.
Result<int> openDirectly(const std::string &path, const struct stat &info) {
  if (S_ISDIR(info.st_mode))
    return cannotWrite(path, "it is a folder");
  if (!S_ISCHR(info.st_mode) && !S_ISFIFO(info.st_mode))
    return cannotWrite(path, "not a file, a pipe or a character device");
  constexpr std::chrono::seconds kPatience(10);
  auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0) {
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
      return fd;
    }
    bool noReader = errno == ENXIO && S_ISFIFO(info.st_mode);
    if (noReader && std::chrono::steady_clock::now() > end)
      return cannotWrite(path, "nobody opened this pipe for reading in ", kPatience.count(), " s");
    if (!noReader && errno != EINTR)
      return cannotWrite(path, std::strerror(errno));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Opens what is written in place: an open descriptor, a pipe or a device. Returns -1 for a
// regular file or one that does not exist yet.
Result<int> openInPlace(const std::string &path, const Followed &followed) {
  if (followed.descriptor >= 0) {
    int fd = ::fcntl(followed.descriptor, F_DUPFD_CLOEXEC, 0);
    return fd >= 0 ? Result<int>(fd) : cannotWrite(path, std::strerror(errno));
  }
  struct stat info;
  if (::stat(followed.path.c_str(), &info) != 0 || S_ISREG(info.st_mode))
    return -1;
  return openDirectly(path, info);
}

// Returns whether another process holds the lock of what `fd` names, and takes it if not. On file
// systems without locks none does.
bool heldByAnother(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

// Writes all of `bytes`; on failure returns false and leaves in `bytes` what was not written.
bool writeAll(int fd, std::string_view &bytes) {
  while (!bytes.empty()) {
    ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

// Holds the names of all temporaries of this process.
struct Temporaries {
  std::mutex mutex;
  std::set<std::string> names;
  bool ended = false; // removeTemporaries() has run
  static Temporaries &all() {
    static Temporaries temporaries;
    return temporaries;
  }
  void remove(const std::string &name) {
    std::lock_guard lock(mutex);
    names.erase(name);
  }
};

// Makes a new file beside `target` and sets `name` to its path; returns its descriptor, or -1
// with errno set. Holds the lock, so that no file is made whose name is not known yet, and waits for
// the end of a process that has removed its temporaries.
int makeTemporary(const std::string &target, mode_t mode, std::string &name) {
  constexpr int kTries = 100; // a killed process of the same id may have left its own
  Temporaries &all = Temporaries::all();
  std::unique_lock lock(all.mutex);
  while (all.ended) {
    lock.unlock();
    ::pause();
    lock.lock();
  }
  for (int i = 0; i < kTries; ++i) {
    name = i == 0 ? text(target, ".tmp.", ::getpid()) : text(target, ".tmp.", ::getpid(), ".", i);
    int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0)
      all.names.insert(name);
    if (fd >= 0 || errno != EEXIST)
      return fd;
  }
  return -1;
}

} // namespace

Result<std::string> llmc::support::followLinks(const std::string &path) {
  Result<Followed> followed = follow(path);
  if (!followed)
    return followed.takeError();
  return followed->path;
}

int llmc::support::namedDescriptor(const std::string &path) {
  Result<Followed> followed = follow(path);
  return followed ? followed->descriptor : -1;
}

Result<OutputFile> OutputFile::create(const std::string &path, bool executable) {
  Result<Followed> followed = follow(path);
  if (!followed)
    return followed.takeError();
  OutputFile file;
  file.path_ = path;
  file.target_ = followed->path;
  Result<int> fd = openInPlace(path, *followed);
  if (!fd)
    return fd.takeError();
  if (file.fd_ = *fd; file.fd_ >= 0)
    return file;
  struct stat info;
  bool exists = ::stat(file.target_.c_str(), &info) == 0;
  // Fails for a protected file, which renaming would replace.
  if (exists && ::access(file.target_.c_str(), W_OK) != 0)
    return cannotWrite(path, std::strerror(errno));
  file.fd_ = makeTemporary(file.target_, executable ? 0777 : 0666, file.temporary_);
  if (file.fd_ < 0)
    return cannotWrite(path, std::strerror(errno));
  if (exists && !executable)
    ::fchmod(file.fd_, info.st_mode & 0777); // keeps the permissions of the old file
  return file;
}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)),
      target_(std::move(other.target_)), temporary_(std::move(other.temporary_)) {}

OutputFile::~OutputFile() {
  if (fd_ < 0)
    return;
  ::close(fd_);
  if (!temporary_.empty())
    removeTemporary();
}

void OutputFile::removeTemporary() {
  ::unlink(temporary_.c_str());
  Temporaries::all().remove(temporary_);
}

Status OutputFile::write(const void *data, size_t size) {
  std::string_view bytes(static_cast<const char *>(data), size);
  return writeAll(fd_, bytes) ? ok() : Status(cannotWrite(path_, std::strerror(errno)));
}

Status OutputFile::commit() {
  int fd = std::exchange(fd_, -1);
  if (temporary_.empty())
    return ::close(fd) == 0 ? ok() : Status(cannotWrite(path_, std::strerror(errno)));
  // Reports a full disk, of which fsync() may be the first to know; without fsync, close() is.
  bool good = ::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
  int why = errno;
  if (::close(fd) != 0 && good)
    good = false, why = errno;
  if (good && ::rename(temporary_.c_str(), target_.c_str()) == 0) {
    Temporaries::all().remove(temporary_);
    return ok();
  }
  why = good ? errno : why;
  removeTemporary();
  return cannotWrite(path_, std::strerror(why));
}

void llmc::support::removeTemporaries() {
  Temporaries &all = Temporaries::all();
  std::lock_guard lock(all.mutex);
  all.ended = true;
  for (const std::string &name : all.names)
    ::unlink(name.c_str());
}

Status llmc::support::writeFile(const std::string &path, std::string_view bytes) {
  Result<OutputFile> file = OutputFile::create(path);
  if (!file)
    return file.takeError();
  if (Status status = file->write(bytes); !status)
    return status;
  return file->commit();
}

Result<LineFile> LineFile::open(const std::string &path, bool replace) {
  Result<Followed> followed = follow(path);
  if (!followed)
    return followed.takeError();
  LineFile file;
  file.path_ = path;
  Result<int> fd = openInPlace(path, *followed);
  if (!fd)
    return fd.takeError();
  if (file.fd_ = *fd; file.fd_ >= 0)
    return file;
  file.regular_ = true;
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && info.st_size > 0 && !replace)
    return cannotWrite(path, "it exists and is not empty; --force replaces it");
  if (Status s = checkWritable(path); !s)
    return s.takeError();
  int present = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  bool held = present >= 0 && heldByAnother(present);
  if (present >= 0)
    ::close(present);
  return held ? cannotWrite(path, kHeld) : Result<LineFile>(std::move(file));
}

LineFile::LineFile(LineFile &&other) noexcept { *this = std::move(other); }

LineFile &LineFile::operator=(LineFile &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(regular_, other.regular_);
  std::swap(path_, other.path_);
  std::swap(pending_, other.pending_);
  return *this;
}

LineFile::~LineFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Status LineFile::append(std::string_view line) {
  pending_ += line;
  pending_ += '\n';
  return flush();
}

Status LineFile::begin() {
  int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0)
    return cannotWrite(path_, std::strerror(errno));
  bool held = heldByAnother(fd);
  if (held || ::ftruncate(fd, 0) != 0) {
    int why = errno;
    ::close(fd);
    return held ? cannotWrite(path_, kHeld) : cannotWrite(path_, std::strerror(why));
  }
  fd_ = fd;
  return ok();
}

Status LineFile::flush() {
  if (fd_ < 0)
    if (Status s = begin(); !s)
      return s;
  struct stat before;
  if (::fstat(fd_, &before) != 0)
    return cannotWrite(path_, std::strerror(errno));
  std::string_view left = pending_;
  bool good = writeAll(fd_, left);
  int why = errno;
  if (!good && regular_ && ::ftruncate(fd_, before.st_size) == 0)
    left = pending_; // no half line, all of it the next time
  pending_ = std::string(left);
  return good ? ok() : Status(cannotWrite(path_, std::strerror(why)));
}

Status llmc::support::checkWritable(const std::string &path) {
  Result<Followed> followed = follow(path);
  if (!followed)
    return followed.takeError();
  struct stat info;
  bool exists = ::stat(path.c_str(), &info) == 0;
  if (followed->descriptor >= 0) {
    int flags = ::fcntl(followed->descriptor, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
      return cannotWrite(path, std::strerror(EBADF));
    return ok();
  }
  if (!exists || S_ISREG(info.st_mode)) {
    Result<OutputFile> file = OutputFile::create(path); // what it opens is removed again
    return file ? ok() : Status(file.takeError());
  }
  // Checks a pipe without opening it: its reader would take that for all of the data.
  if (S_ISFIFO(info.st_mode))
    return ::access(path.c_str(), W_OK) == 0 ? ok()
                                             : Status(cannotWrite(path, std::strerror(errno)));
  Result<int> fd = openDirectly(path, info);
  if (!fd)
    return fd.takeError();
  ::close(*fd);
  return ok();
}

Result<FolderLock> FolderLock::take(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return error("cannot open '", path, "': ", std::strerror(errno));
  FolderLock lock(fd);
  if (heldByAnother(fd))
    return error("another run will save to '", path, "' when it ends; name another folder");
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0)
    ::close(fd_);
}

Status llmc::support::makeDirectory(const std::string &path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code)
    return error("cannot make the folder '", path, "': ", code.message());
  return ok();
}
