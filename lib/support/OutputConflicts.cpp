#include "lib/support/OutputConflicts.h"

#include "lib/support/OutputFile.h"

#include <optional>
#include <sys/stat.h>
#include <unistd.h>

using namespace llmc::support;

namespace {

struct Known {
  NamedFile file;
  std::optional<std::pair<dev_t, ino_t>> node; // of a regular file that exists
  std::string path;                            // of one that does not exist: what it would be
  bool descriptor = false;                     // of this process
};

Known identify(const NamedFile &file) {
  Known known{file, std::nullopt, "", namedDescriptor(file.path) >= 0};
  struct stat info;
  if (::stat(file.path.c_str(), &info) == 0) {
    if (S_ISREG(info.st_mode))
      known.node = {info.st_dev, info.st_ino};
  } else if (Result<std::string> path = followLinks(file.path)) {
    known.path = *path;
  }
  return known;
}

// Returns standard output and error, where they go to regular files.
std::vector<Known> redirected() {
  std::vector<Known> all;
  for (int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info;
    if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
      all.push_back({{fd == STDOUT_FILENO ? "standard output" : "standard error", ""},
                     std::pair(info.st_dev, info.st_ino), "", true});
  }
  return all;
}

std::string nameOf(const NamedFile &file) {
  return file.path.empty() ? file.flag : text(file.flag, " '", file.path, "'");
}

bool isParent(const std::string &folder, const std::string &path) {
  return !folder.empty() && path.size() > folder.size() && path[folder.size()] == '/' &&
         path.compare(0, folder.size(), folder) == 0;
}

// Returns why the two cannot both be used, or "".
std::string clash(const Known &written, const Known &other, bool otherIsInput) {
  // Allows the same descriptor twice: it takes all that is written to it, one after the other.
  bool inTurn = written.descriptor && other.descriptor && !otherIsInput;
  if (!inTurn && ((written.node && written.node == other.node) ||
                  (!written.path.empty() && written.path == other.path)))
    return text(nameOf(written.file), " is the same file as ", nameOf(other.file));
  if (isParent(written.path, other.path))
    return text(nameOf(written.file), " is to be a file and the folder of ", nameOf(other.file));
  if (!otherIsInput && isParent(other.path, written.path))
    return text(nameOf(other.file), " is to be a file and the folder of ", nameOf(written.file));
  return "";
}

} // namespace

Status llmc::support::checkOutputConflicts(const std::vector<NamedFile> &inputs,
                                   const std::vector<NamedFile> &outputs) {
  std::vector<Known> read, written;
  for (const NamedFile &file : inputs)
    read.push_back(identify(file));
  for (const NamedFile &file : outputs)
    written.push_back(identify(file));
  for (const Known &known : redirected())
    written.push_back(known);
  std::string problems;
  for (size_t i = 0; i < written.size(); ++i) {
    std::string problem; // the first of each
    for (size_t r = 0; problem.empty() && r < read.size(); ++r)
      problem = clash(written[i], read[r], /*otherIsInput=*/true);
    for (size_t other = 0; problem.empty() && other < i; ++other)
      problem = clash(written[i], written[other], /*otherIsInput=*/false);
    if (!problem.empty())
      problems += (problems.empty() ? "" : "; ") + problem;
  }
  if (problems.empty())
    return ok();
  return error(problems, "; nothing was written, name another file for each output");
}
