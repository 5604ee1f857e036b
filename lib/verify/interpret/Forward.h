// A model's @forward on the rows of one micro-batch, in double or with derivatives.
#ifndef LLMC_LIB_VERIFY_INTERPRET_FORWARD_H
#define LLMC_LIB_VERIFY_INTERPRET_FORWARD_H

#include "dialects/graph/Evaluate.h"
#include "dialects/graph/GraphAttrs.h"
#include "lib/verify/steps/Training.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::verify {

// Argument `i` of `func` where it is an input: the rows of micro-batch `k` if it has as many
// rows as a micro-batch, else the first elements of what is given for the step. Fails with a
// diagnostic.
mlir::FailureOr<Tensor> inputArgument(mlir::func::FuncOp func, unsigned i, const StepData &data,
                                      int64_t k);

// @forward of a module; null after a diagnostic where it has none.
mlir::func::FuncOp forwardOf(mlir::ModuleOp module);

// The results of @forward for micro-batch `k`, its states by symbol as given.
template <typename TensorType>
mlir::FailureOr<std::vector<TensorType>> runForward(mlir::func::FuncOp forward,
                                                    const std::map<std::string, TensorType> &states,
                                                    const StepData &data, int64_t k) {
  std::vector<TensorType> arguments;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto symbol = forward.getArgAttrOfType<mlir::FlatSymbolRefAttr>(i, graph::kState);
    if (symbol) {
      arguments.push_back(states.at(symbol.getValue().str()));
      continue;
    }
    mlir::FailureOr<Tensor> input = inputArgument(forward, i, data, k);
    if (failed(input))
      return mlir::failure();
    TensorType &argument = arguments.emplace_back(input->shape);
    std::copy(input->data.begin(), input->data.end(), argument.data.begin());
  }
  if constexpr (std::is_same_v<TensorType, Tensor>)
    return graph::evaluate(forward, arguments);
  else
    return graph::evaluateDual(forward, arguments);
}

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_FORWARD_H
