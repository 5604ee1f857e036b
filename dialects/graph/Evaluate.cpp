#include "dialects/graph/Evaluate.h"

#include "dialects/graph/Detail.h"

#include <memory>

using namespace mlir;

namespace llmc::graph {

std::vector<Tensor> evaluateOp(GraphOpInterface op, ArrayRef<const Tensor *> inputs) {
  std::vector<Tensor> outputs;
  for (Value result : op->getResults())
    outputs.emplace_back(shapeOf(result).vec());
  op.evaluate(inputs, outputs);
  return outputs;
}

namespace {

using Held = std::shared_ptr<const Tensor>;
using HeldList = SmallVector<Held>;

class Interpreter {
public:
  explicit Interpreter(Foreign foreign) : foreign(foreign) {}

  // Runs a block on its arguments; returns the operands of its terminator.
  FailureOr<HeldList> run(Block &block, HeldList arguments);

private:
  FailureOr<HeldList> runOp(Operation *op, ArrayRef<Held> operands);
  FailureOr<HeldList> runRepeat(RepeatOp op, ArrayRef<Held> operands);
  FailureOr<HeldList> runCall(func::CallOp op, ArrayRef<Held> operands);

  Foreign foreign;
};

// The values of a block that some later op still reads.
class Live {
public:
  void define(Value value, Held tensor) {
    auto uses = std::distance(value.use_begin(), value.use_end());
    if (uses != 0)
      values[value] = {std::move(tensor), uses};
  }
  Held use(Value value) {
    auto found = values.find(value);
    Held tensor = found->second.first;
    if (--found->second.second == 0)
      values.erase(found);
    return tensor;
  }

private:
  llvm::DenseMap<Value, std::pair<Held, int64_t>> values;
};

} // namespace

FailureOr<HeldList> Interpreter::run(Block &block, HeldList arguments) {
  Live live;
  for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments))
    live.define(argument, tensor);
  arguments.clear();
  for (Operation &op : block) {
    HeldList operands;
    for (Value operand : op.getOperands())
      operands.push_back(live.use(operand));
    if (op.hasTrait<OpTrait::IsTerminator>())
      return operands;
    FailureOr<HeldList> results = runOp(&op, operands);
    if (failed(results))
      return failure();
    for (auto [result, tensor] : llvm::zip(op.getResults(), *results))
      live.define(result, tensor);
  }
  return HeldList();
}

static HeldList hold(std::vector<Tensor> tensors) {
  HeldList held;
  for (Tensor &tensor : tensors)
    held.push_back(std::make_shared<const Tensor>(std::move(tensor)));
  return held;
}

FailureOr<HeldList> Interpreter::runOp(Operation *op, ArrayRef<Held> operands) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return runRepeat(repeat, operands);
  if (auto call = dyn_cast<func::CallOp>(op))
    return runCall(call, operands);
  SmallVector<const Tensor *> inputs;
  for (const Held &operand : operands)
    inputs.push_back(operand.get());
  if (auto graphOp = dyn_cast<GraphOpInterface>(op))
    return hold(evaluateOp(graphOp, inputs));
  if (!foreign)
    return op->emitOpError("has no reference meaning, expected an op of the graph dialect");
  FailureOr<std::vector<Tensor>> outputs = foreign(op, inputs);
  if (failed(outputs))
    return failure();
  return hold(std::move(*outputs));
}

FailureOr<HeldList> Interpreter::runRepeat(RepeatOp op, ArrayRef<Held> operands) {
  size_t carried = op.getCarried().size(), stacked = op.getStacked().size();
  HeldList values(operands.take_front(carried));
  std::vector<Tensor> results;
  for (Value result : op.getStackedResults())
    results.emplace_back(shapeOf(result).vec());
  int64_t count = op.getCount();
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = op.getReverse() ? count - 1 - step : step;
    HeldList arguments = std::move(values);
    for (const Held &whole : operands.slice(carried, stacked)) {
      Tensor part(std::vector<int64_t>(whole->shape.begin() + 1, whole->shape.end()));
      std::copy_n(whole->data.begin() + i * part.size(), part.size(), part.data.begin());
      arguments.push_back(std::make_shared<const Tensor>(std::move(part)));
    }
    llvm::append_range(arguments, operands.drop_front(carried + stacked));
    FailureOr<HeldList> yielded = run(op.getBlock(), std::move(arguments));
    if (failed(yielded))
      return failure();
    values.assign(yielded->begin(), yielded->begin() + carried);
    for (size_t k = 0; k < results.size(); ++k) {
      const Tensor &part = *(*yielded)[carried + k];
      llvm::copy(part.data, results[k].data.begin() + i * part.size());
    }
  }
  llvm::append_range(values, hold(std::move(results)));
  return values;
}

FailureOr<HeldList> Interpreter::runCall(func::CallOp op, ArrayRef<Held> operands) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
  if (!callee || callee.isExternal())
    return op.emitOpError("calls @") << op.getCallee() << ", which has no body";
  return run(callee.front(), HeldList(operands));
}

FailureOr<std::vector<Tensor>> evaluate(func::FuncOp func, ArrayRef<Tensor> inputs,
                                        Foreign foreign) {
  if (func.isExternal() || func.getNumArguments() != inputs.size())
    return func.emitOpError("has ") << func.getNumArguments() << " arguments"
                                    << (func.isExternal() ? " and no body" : "") << ", got "
                                    << inputs.size() << " inputs";
  HeldList arguments;
  for (auto [i, input] : llvm::enumerate(inputs)) {
    if (shapeOf(func.getArgument(i)) != ArrayRef<int64_t>(input.shape))
      return func.emitOpError("argument ")
             << i << " has shape " << shapeText(shapeOf(func.getArgument(i))) << ", got "
             << shapeText(input.shape);
    arguments.push_back(std::make_shared<const Tensor>(input));
  }
  FailureOr<HeldList> results = Interpreter(foreign).run(func.front(), std::move(arguments));
  if (failed(results))
    return failure();
  std::vector<Tensor> outputs;
  for (const Held &result : *results)
    outputs.push_back(*result);
  return outputs;
}

} // namespace llmc::graph
