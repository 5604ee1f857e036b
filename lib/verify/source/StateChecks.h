// First values of the states, checked against the model's file by name and against the
// architecture's rule.
//
// Everything else in `verify` takes weights through the states' own views, on one rank as on
// all, so that it cannot see a wrong place in a file, a wrong deviation, or two tensors that
// have changed places.
//   states:file    each source lies where its file has the tensor of that name
//   states:wiring  each op of the imported graph reads the tensors that its node reads in the
//                  file, the same way round (of a config.json: those of its own module)
//   states:ranks   what all ranks hold after loading is what the file has, bit for bit; of a
//                  model without weights, what one rank draws
//   states:drawn   what is drawn follows the architecture's rule
#ifndef LLMC_LIB_VERIFY_SOURCE_STATECHECKS_H
#define LLMC_LIB_VERIFY_SOURCE_STATECHECKS_H

#include "lib/verify/source/FileTensors.h"
#include "lib/verify/subject/Report.h"
#include "lib/verify/subject/Subject.h"

namespace llmc::verify {

// The four of a plan; states:wiring where the subject has border import. `one`, the plan for
// one rank, may be null: then nothing is loaded, and states:ranks is left out.
void checkStates(const Subject &subject, const Subject *one, uint64_t seed, Report &report);

// The parts. Each message is one fault.
using Faults = std::vector<std::string>;
Faults checkPlaces(const planfile::ProgramT &program, const FileModel &file);
Faults checkWiring(mlir::ModuleOp imported, const FileModel &file, const std::string &config);
Faults checkValues(const planfile::ProgramT &program, const FileModel &file,
                   const NamedTensors &ranks);
// `config` is the text of config.json, or empty; `values` may lack tensors.
Faults checkDrawn(const planfile::ProgramT &program, const std::string &config,
                  const NamedTensors &values);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SOURCE_STATECHECKS_H
