// Two plans of one structure: the same program on tensors of other sizes.
#ifndef LLMC_LIB_VERIFY_SCALED_ISOMORPHISM_H
#define LLMC_LIB_VERIFY_SCALED_ISOMORPHISM_H

#include "lib/planfile/Program.h"

#include <string>
#include <vector>

namespace llmc::verify {

struct Isomorphism {
  // What differs, a line each, at most 20; `count` counts all.
  std::vector<std::string> differences;
  size_t count = 0;
  // What was compared.
  size_t instructions = 0, reads = 0;
};

// Compares everything but sizes: mesh (of the axes in `mayShrink` the twin may have
// fewer), stages, slots, tables, procedures; of each instruction stream, phase,
// origin, kind, kernel structure, axes, members, channel, event; states with the
// axes that cut them and whether they are padded; inputs, outputs, sources. Buffers
// correspond if, when both tables are walked through in order, each instruction reads
// what corresponding instructions, states or nobody wrote: that holds whatever
// bytes the two arenas reuse. Both plans must pass checkBounds().
Isomorphism compare(const planfile::ProgramT &plan, const planfile::ProgramT &twin,
                    const std::vector<std::string> &mayShrink);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SCALED_ISOMORPHISM_H
