// Compares what a command writes with what it reads, before anything is opened.
#ifndef LLMC_LIB_SUPPORT_OUTPUTS_H
#define LLMC_LIB_SUPPORT_OUTPUTS_H

#include "lib/support/Error.h"

#include <string>
#include <vector>

namespace llmc::support {

// A file that a command reads or writes, and who named it: "--data", "-o", "the model".
// Of a folder, give the files in it that are read or written.
struct NamedFile {
  std::string flag, path;
};

// An error that names every output which is the same file as an input or as another
// output, by whatever path: links, hard links, "./x". What standard output and standard
// error are redirected to counts as written. Devices and pipes may be named many times.
Status checkOutputs(const std::vector<NamedFile> &inputs, const std::vector<NamedFile> &outputs);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_OUTPUTS_H
