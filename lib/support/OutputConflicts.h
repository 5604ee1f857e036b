// Compares what a command writes with what it reads, before anything is opened. Tests:
// test/runtime/OutputsTest.cpp.
#ifndef LLMC_LIB_SUPPORT_OUTPUTCONFLICTS_H
#define LLMC_LIB_SUPPORT_OUTPUTCONFLICTS_H

#include "lib/support/Error.h"

#include <string>
#include <vector>

namespace llmc::support {

// Describes a file that a command reads or writes, and what named it: "--data", "-o", "the
// model". For a folder, list the files in it that are read or written.
struct NamedFile {
  std::string flag, path;
};

// Returns an error that names every output which is the same file as an input or as another
// output, by whatever path: links, hard links, "./x". Files to which standard output and standard
// error are redirected count as written. Devices and pipes may be named many times.
Status checkOutputConflicts(const std::vector<NamedFile> &inputs,
                            const std::vector<NamedFile> &outputs);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_OUTPUTCONFLICTS_H
