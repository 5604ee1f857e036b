// Folds ops without a fold function: evaluates the ops that they are converted to.
#include "lib/onnx/convert/Conversion.h"

#include "dialects/graph/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

static HostTensor hostTensor(const graph::Tensor &from, Element element) {
  HostTensor out(element, Shape(from.shape.begin(), from.shape.end()));
  for (int64_t i = 0, n = out.size(); i < n; ++i)
    out.set(i, from.data[i]);
  return out;
}

// Fails if a result exceeds maxHostElements: a converter may combine operands into a large tensor.
static support::Status checkSizes(Block &block) {
  for (Operation &op : block)
    for (Value result : op.getResults())
      if (auto s = checkHostSize(graph::shapeOf(result)); !s)
        return s;
  return support::ok();
}

ConvertResult llmc::onnximport::foldByEvaluation(const Node &node,
                                                 llvm::ArrayRef<const Operand *> operands,
                                                 const Model &model, Parameters &parameters,
                                                 MLIRContext *context) {
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToEnd(module->getBody());
  auto func = func::FuncOp::create(builder, builder.getUnknownLoc(), "fold",
                                   builder.getFunctionType({}, {}));
  Block *block = func.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  Constants constants(*block);
  NodeAdaptor call(node, operands, model, parameters, constants, builder);
  auto results = convertCall(call);
  if (!results)
    return results;
  llvm::SmallVector<Value> values;
  for (Operand &operand : *results)
    if (auto *made = std::get_if<ComputedValue>(&operand))
      values.push_back(made->value);
  func::ReturnOp::create(builder, builder.getUnknownLoc(), values);
  func.setFunctionType(builder.getFunctionType({}, TypeRange(ValueRange(values))));
  if (auto s = checkSizes(*block); !s)
    return s.takeError();
  auto evaluated = graph::evaluate(func, {});
  if (failed(evaluated))
    return error("cannot be evaluated");
  size_t next = 0;
  for (Operand &operand : *results)
    if (auto *made = std::get_if<ComputedValue>(&operand))
      operand = known(hostTensor((*evaluated)[next++], *made->element));
  return results;
}
