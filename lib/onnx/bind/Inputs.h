// Binds the inputs of an ONNX graph: finds the token ids, fixes every dim, and decides which
// inputs are arguments and which are constants. Tested by test/import/Infer.cpp and Models.cpp.
#ifndef LLMC_LIB_ONNX_BIND_INPUTS_H
#define LLMC_LIB_ONNX_BIND_INPUTS_H

#include "lib/onnx/file/NodeOrder.h"
#include "lib/options/Options.h"

namespace llmc::onnximport {

// Limits the tokens of a row where neither the user nor the file says how many.
inline constexpr int64_t kLongestDefault = 4096;

// Holds the bound inputs.
struct InputBinding {
  // Describes an argument of @forward; `batched` says that its dim 0 is the batch.
  struct Argument {
    std::string name;
    Element element = Element::I64;
    Shape shape;
    bool batched = false;
  };

  int64_t batch = 0, sequence = 0;
  int64_t context = 0;                   // rows of the position table, 0 without one
  std::string tokens;                    // the input of token ids; "" if there is none
  std::optional<unsigned> tokenTable;    // the embedding table, a stored tensor
  std::string positionTable;             // name, for messages
  std::vector<Argument> arguments;       // training: the tokens; inference: every input
  llvm::StringMap<HostTensor> constants; // inputs whose values are known at import
};

// Binds the inputs. Token ids are the integer input [batch, sequence] that indexes the largest
// table (preferably one with as many rows as the logits have columns, if the file gives that).
// For training the tokens are the one argument and required; the other inputs are constants:
// masks are ones, positions 0 ... sequence-1, caches empty. For inference every input is an
// argument, and tokens are optional; each dim is bound by --dim, --seq, --global-batch or the
// file, and may be an expression of bound names; one error lists all unbound names. An input
// without elements is a constant as well, and so is, if the graph has a cache, the condition of
// an If (whether there is a past). Errors name the file.
support::Result<InputBinding> bindInputs(const Model &model, const NodeOrder &order,
                                         const CompileOptions &options);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_INPUTS_H
