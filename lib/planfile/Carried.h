// The program that an executable made by `llmc compile` carries.
#ifndef LLMC_LIB_PLANFILE_CARRIED_H
#define LLMC_LIB_PLANFILE_CARRIED_H

#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"

#include <memory>
#include <string>

namespace llmc::planfile {

struct Carried {
  std::unique_ptr<Payload> payload;
  std::unique_ptr<ProgramT> program;
};

// Errors begin with the file: no executable of llmc, a checksum or a plan that does
// not hold (readProgram()).
support::Result<Carried> openCarried(const std::string &path);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CARRIED_H
