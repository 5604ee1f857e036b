// Reads the program that an executable made by `llmc compile` carries. Tests:
// test/runtime/TrainerTest.cpp (AFlippedBitIsRefused), test/numerics/refusals.py (flipped_bit,
// program_as_model).
#ifndef LLMC_LIB_PLANFILE_EMBEDDEDPROGRAM_H
#define LLMC_LIB_PLANFILE_EMBEDDEDPROGRAM_H

#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"

#include <memory>
#include <string>

namespace llmc::planfile {

// Owns the mapped sections of an executable, and the plan read from them.
struct EmbeddedProgram {
  std::unique_ptr<Payload> payload;
  std::unique_ptr<ProgramT> program;
  std::unique_ptr<ProgramT> retry; // Retry.h; null: none
};

// Opens an executable, verifies its checksums and reads its plan. Errors begin with the path: the
// file cannot be mapped, is no executable of llmc, is damaged, or a plan is refused by readProgram() or
// checkRetry().
support::Result<EmbeddedProgram> openEmbeddedProgram(const std::string &path);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_EMBEDDEDPROGRAM_H
