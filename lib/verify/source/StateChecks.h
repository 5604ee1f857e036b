// Checks the initial values of the states against the model's file, by name, and against the
// architecture's rule. Tested by test/verify/StateChecksTest.cpp.
//
// Everything else in `verify` takes weights through the states' own views, on one rank as on all,
// so that it cannot see a wrong offset in a file, a wrong deviation, or two tensors that are
// exchanged.
//   states:file    each source is at the offset where its file has the tensor of that name
//   states:wiring  each op of the imported graph reads the tensors that its node reads in the
//                  file, with the same orientation (of a config.json: those of its own module)
//   states:ranks   all ranks hold after loading what the file has, bit for bit; of a model
//                  without weights, what one rank draws
//   states:drawn   drawn values follow the architecture's rule
#ifndef LLMC_LIB_VERIFY_SOURCE_STATECHECKS_H
#define LLMC_LIB_VERIFY_SOURCE_STATECHECKS_H

#include "lib/verify/source/FileTensors.h"
#include "lib/verify/subject/Report.h"
#include "lib/verify/subject/Subject.h"

namespace llmc::verify {

// Adds the four checks of a plan; states:file if it has stored tensors, states:drawn if it draws
// some, states:wiring if the subject has the imported module. If `one`, the plan for one rank, is
// null, nothing is loaded and states:ranks is left out.
void checkStates(const Subject &subject, const Subject *one, uint64_t seed, Report &report);

// Lists faults, one message each. The functions below perform one check each.
using Faults = std::vector<std::string>;
Faults checkPlaces(const planfile::ProgramT &program, const FileModel &file);
Faults checkWiring(mlir::ModuleOp imported, const FileModel &file, const std::string &config);
Faults checkValues(const planfile::ProgramT &program, const FileModel &file,
                   const NamedTensors &ranks);
// Checks the tensors without a file. `config` is the text of config.json or empty, and then the
// plan's own rule is taken; `values` may lack tensors.
Faults checkDrawn(const planfile::ProgramT &program, const std::string &config,
                  const NamedTensors &values);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SOURCE_STATECHECKS_H
