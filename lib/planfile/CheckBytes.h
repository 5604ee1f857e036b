// Cuts the bytes that the entries of one stage access into atoms: ranges of which every access
// covers all bytes or none. The cut is made once, so that an analysis of the step works on atom
// numbers instead of cutting ranges at each access.
#ifndef LLMC_LIB_PLANFILE_CHECKBYTES_H
#define LLMC_LIB_PLANFILE_CHECKBYTES_H

#include "lib/planfile/Trace.h"

#include <span>

namespace llmc::planfile {

// Represents the atoms [first, last) of a stage.
struct AtomRange {
  uint32_t first = 0, last = 0;
};

// Describes an access of an instruction to a range of atoms.
struct AtomAccess : AtomRange {
  bool read = false, write = false;
  bool slotted = false; // the buffer differs between slots
  uint32_t lane = 0;    // whose slot it uses
};

// Holds the atoms of a stage and the accesses of every row of its table.
class StageAtoms {
public:
  explicit StageAtoms(const StageT &stage);

  size_t atoms() const { return borders.empty() ? 0 : borders.size() - 1; }
  // Returns the arena offset of an atom's first byte; of a range's `last` it is the end of the
  // range.
  uint64_t begin(uint32_t atom) const { return borders[atom]; }
  uint64_t size(uint32_t atom) const { return borders[atom + 1] - borders[atom]; }

  // Returns the atoms of the buffer of a state, host scalar, output or result, in slot 0.
  AtomRange of(const BufferRefT &buffer) const {
    return range(buffer.offset, buffer.offset + buffer.size);
  }
  // Returns the non-empty accesses of an instruction in a row of the table, in operand order.
  std::span<const AtomAccess> of(uint32_t entry, uint32_t instruction) const {
    const Run &run = runs[runOf[entry]];
    return {run.accesses.data() + run.begin[instruction],
            run.accesses.data() + run.begin[instruction + 1]};
  }

private:
  // Holds the accesses of a procedure in given slots; rows that agree in both share it.
  struct Run {
    std::vector<uint32_t> begin; // of each instruction and the end: index into accesses
    std::vector<AtomAccess> accesses;
  };

  void addBorders(uint64_t begin, uint64_t end);
  AtomRange range(uint64_t begin, uint64_t end) const;
  Run walk(const ProcedureT &procedure, const EntryT &entry, const Run *same) const;

  std::vector<uint64_t> borders; // arena offsets, ascending; atom i is [i, i + 1)
  std::vector<Run> runs;
  std::vector<uint32_t> runOf; // of each row of the table: index into runs
};

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECKBYTES_H
