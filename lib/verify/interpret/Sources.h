// States of a module <-> tensors of the model's source, through the states' views.
#ifndef LLMC_LIB_VERIFY_INTERPRET_SOURCES_H
#define LLMC_LIB_VERIFY_INTERPRET_SOURCES_H

#include "dialects/graph/Graph.h"
#include "lib/verify/steps/Training.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::verify {

// Global shape of a state without padding.
std::vector<int64_t> validShape(graph::StateOp state);

// Values of all parameters, by symbol of the state, from those of the sources.
// Sources that are not there give zeros.
NamedTensors statesFromSources(mlir::ModuleOp module, const NamedTensors &sources);

// The reverse, for the states of one role: parameters themselves, or what
// belongs to one (its accumulator).
NamedTensors sourcesFromStates(mlir::ModuleOp module, const NamedTensors &states,
                               graph::Role role);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_SOURCES_H
