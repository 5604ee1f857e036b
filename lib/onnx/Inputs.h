// What the graph's inputs are in training, and the sizes that bind their dims.
#ifndef LLMC_LIB_ONNX_INPUTS_H
#define LLMC_LIB_ONNX_INPUTS_H

#include "lib/onnx/NodeOrder.h"
#include "lib/pipeline/Options.h"

namespace llmc::onnximport {

struct InputBinding {
  int64_t batch = 0, sequence = 0;
  int64_t context = 0;                 // rows of the position table, 0 without one
  std::string tokens;                  // the input that is indexed into the embedding table
  std::optional<unsigned> tokenTable;  // that table, a stored tensor
  std::string positionTable;           // name, for messages
  llvm::StringMap<HostTensor> constants; // all other inputs
};

// Tokens are the integer input [batch, sequence] that indexes the largest table
// (the one with as many rows as the logits have columns, if sizes tell). Masks
// are ones, positions 0 ... sequence-1, caches empty.
support::Result<InputBinding> bindInputs(const Model &model, const NodeOrder &order,
                                         const CompileOptions &options);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_INPUTS_H
