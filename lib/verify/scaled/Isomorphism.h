// Compares the structure of two plans: one program on tensors of different sizes. Tested by
// test/verify/twin/IsomorphismTest.cpp.
#ifndef LLMC_LIB_VERIFY_SCALED_ISOMORPHISM_H
#define LLMC_LIB_VERIFY_SCALED_ISOMORPHISM_H

#include "lib/planfile/Program.h"

#include <string>
#include <vector>

namespace llmc::verify {

// Holds the result: the plans are isomorphic if `count` is 0.
struct Isomorphism {
  // Lists the first 20 differences, a line each; `count` counts all.
  std::vector<std::string> differences;
  size_t count = 0;
  // Counts what was compared.
  size_t instructions = 0, reads = 0;
};

// Compares everything but sizes: mesh (of the axes in `mayShrink` the twin may have fewer ranks),
// stages, slots, tables, procedures; of each instruction stream, phase, origin, kind, kernel
// structure, axes, members, channel, event; states with the axes that shard them and whether they
// are padded; inputs, outputs, sources. Buffers correspond if, when both tables are executed in
// order, each instruction reads what corresponding instructions, states or none wrote: that is
// independent of which bytes the two arenas reuse. Both plans must pass checkBounds().
Isomorphism compare(const planfile::ProgramT &plan, const planfile::ProgramT &twin,
                    const std::vector<std::string> &mayShrink);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SCALED_ISOMORPHISM_H
