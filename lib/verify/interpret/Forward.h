// Runs a model's @forward on the rows of one micro-batch, in double or with dual numbers. Tested by
// test/verify/fromfile/FromFileTest.cpp.
#ifndef LLMC_LIB_VERIFY_INTERPRET_FORWARD_H
#define LLMC_LIB_VERIFY_INTERPRET_FORWARD_H

#include "dialects/graph/Evaluate.h"
#include "dialects/graph/GraphAttrs.h"
#include "lib/verify/steps/Training.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::verify {

// Returns the value of argument `i` of `func`, which is bound to an input: the rows of
// micro-batch `k` if the argument has as many rows as a micro-batch, else the first elements of
// the step's value. Fails with a diagnostic if the step lacks the input or has too few elements
// of it.
mlir::FailureOr<Tensor> inputArgument(mlir::func::FuncOp func, unsigned i, const StepData &data,
                                      int64_t k);

// Returns @forward of a module, or null after a diagnostic if it has none with a body and a
// result.
mlir::func::FuncOp forwardOf(mlir::ModuleOp module);

// Returns the results of @forward for micro-batch `k`, given its states by symbol; TensorType is
// Tensor or graph::DualTensor. Every state that an argument names must be in `states`.
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
