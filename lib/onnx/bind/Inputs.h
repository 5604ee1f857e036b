// What the graph's inputs are, and the sizes that bind their dims.
#ifndef LLMC_LIB_ONNX_BIND_INPUTS_H
#define LLMC_LIB_ONNX_BIND_INPUTS_H

#include "lib/onnx/file/NodeOrder.h"
#include "lib/pipeline/Options.h"

namespace llmc::onnximport {

// Tokens of a row at most, where neither the user nor the file says how many.
inline constexpr int64_t kLongestDefault = 4096;

struct InputBinding {
  // An argument of the function. `batched`: dim 0 is the batch.
  struct Argument {
    std::string name;
    Element element = Element::I64;
    Shape shape;
    bool batched = false;
  };

  int64_t batch = 0, sequence = 0;
  int64_t context = 0;                   // rows of the position table, 0 without one
  std::string tokens;                    // the input that is indexed into the embedding table
  std::optional<unsigned> tokenTable;    // that table, a stored tensor
  std::string positionTable;             // name, for messages
  std::vector<Argument> arguments;       // training: the tokens; inference: every input
  llvm::StringMap<HostTensor> constants; // inputs whose values are known at import
};

// Tokens are the integer input [batch, sequence] that indexes the largest table
// (the one with as many rows as the logits have columns, if sizes tell). In
// training masks are ones, positions 0 ... sequence-1, caches empty.
// For inference every dim is bound by --dim, --seq, --global-batch or the file, and
// may be an expression of bound names; all that are not are one error. A graph
// without tokens is read too. Inputs without elements are known, and where there is a
// cache the conditions of an If (whether there is a past).
support::Result<InputBinding> bindInputs(const Model &model, const NodeOrder &order,
                                         const CompileOptions &options);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_INPUTS_H
