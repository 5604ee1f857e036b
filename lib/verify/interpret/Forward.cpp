// Binds the arguments of @forward to the inputs of a step.
#include "lib/verify/interpret/Forward.h"

#include "dialects/parallel/Annotations.h"

using namespace mlir;

namespace llmc::verify {

FailureOr<Tensor> inputArgument(func::FuncOp func, unsigned i, const StepData &data, int64_t k) {
  auto module = func->getParentOfType<ModuleOp>();
  auto batch = module->getAttrOfType<IntegerAttr>(graph::kBatch);
  auto type = cast<RankedTensorType>(func.getArgumentTypes()[i]);
  auto name = func.getArgAttrOfType<StringAttr>(i, graph::kInput);
  auto found = name ? data.inputs.find(name.str()) : data.inputs.end();
  Tensor part(type.getShape().vec());
  bool hasRows = batch && !parallel::isInference(module) && type.getRank() > 0 &&
                 type.getDimSize(0) == batch.getInt();
  int64_t from = hasRows ? k * part.size() : 0;
  if (found == data.inputs.end() || found->second.size() < from + part.size())
    return func.emitError("argument ") << i << " is bound to no input of the step";
  std::copy_n(found->second.data.begin() + from, part.size(), part.data.begin());
  return part;
}

func::FuncOp forwardOf(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (forward && !forward.isExternal() && forward.getNumResults() > 0)
    return forward;
  module.emitError("has no @forward with a result");
  return {};
}

} // namespace llmc::verify
