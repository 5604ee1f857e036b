// Converts between the states of a module and the tensors of the model's source, through the
// states' views. Tested by test/passes/5-schedule/RunTest.cpp,
// test/verify/fromfile/FromFileTest.cpp and test/verify/OracleTest.cpp.
#ifndef LLMC_LIB_VERIFY_INTERPRET_SOURCES_H
#define LLMC_LIB_VERIFY_INTERPRET_SOURCES_H

#include "dialects/graph/Graph.h"
#include "lib/verify/steps/Training.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::verify {

// Returns the global shape of a state without padding.
std::vector<int64_t> validShape(graph::StateOp state);

// Returns the values of all parameters, by symbol of the state, from those of the sources. A
// missing source gives zeros.
NamedTensors statesFromSources(mlir::ModuleOp module, const NamedTensors &sources);

// Returns the values of the sources from the states of one role: parameters themselves, or what
// belongs to one (its accumulator). Skips a state that is missing or has another shape.
NamedTensors sourcesFromStates(mlir::ModuleOp module, const NamedTensors &states,
                               graph::Role role);

// Returns the file of a source and the offset of its bytes, or an empty path if it has none.
std::pair<std::string, int64_t> storedLocation(mlir::ModuleOp imported, graph::SourceOp source);

// Gives source tensors that are uses of one stored tensor the same values, so that the file can
// be run with `weights`.
void unifySharedTensors(mlir::ModuleOp imported, NamedTensors &weights);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_SOURCES_H
