#include "dialects/graph/Evaluate.h"

#include "dialects/graph/Detail.h"

#include <memory>

using namespace mlir;

namespace llmc::graph {

namespace {

void run(GraphOpInterface op, ArrayRef<const Tensor *> inputs, MutableArrayRef<Tensor> outputs) {
  op.evaluate(inputs, outputs);
}
void run(GraphOpInterface op, ArrayRef<const DualTensor *> inputs,
         MutableArrayRef<DualTensor> outputs) {
  op.evaluateDual(inputs, outputs);
}
void run(GraphOpInterface op, ArrayRef<const BoundedTensor *> inputs,
         MutableArrayRef<BoundedTensor> outputs) {
  op.evaluateBounded(inputs, outputs);
}

template <typename T>
std::vector<TensorOf<T>> runOne(GraphOpInterface op, ArrayRef<const TensorOf<T> *> inputs) {
  std::vector<TensorOf<T>> outputs;
  for (Value result : op->getResults())
    outputs.emplace_back(shapeOf(result).vec());
  run(op, inputs, outputs);
  return outputs;
}

template <typename T> using Held = std::shared_ptr<const TensorOf<T>>;
template <typename T> using HeldList = SmallVector<Held<T>>;

template <typename T> class Interpreter {
public:
  Interpreter(Foreign foreign, Rounding rounding, Observe observe)
      : foreign(foreign), rounding(rounding), observe(observe) {}

  // Runs a block on its arguments; returns the operands of its terminator.
  FailureOr<HeldList<T>> run(Block &block, HeldList<T> arguments);

private:
  FailureOr<HeldList<T>> runOp(Operation *op, ArrayRef<Held<T>> operands);
  FailureOr<HeldList<T>> runForeign(Operation *op, ArrayRef<const TensorOf<T> *> inputs);
  FailureOr<HeldList<T>> runRepeat(RepeatOp op, ArrayRef<Held<T>> operands);
  FailureOr<HeldList<T>> runCall(func::CallOp op, ArrayRef<Held<T>> operands);

  // Returns a tensor as a value of the type holds it.
  Held<T> fitted(Type type, Held<T> tensor) const;

  // Evaluates an op of the graph dialect.
  HeldList<T> runGraphOp(GraphOpInterface op, ArrayRef<const TensorOf<T> *> inputs) const;

  Foreign foreign;
  Rounding rounding;
  Observe observe;
  int64_t layer = 0; // of the innermost repeat
};

// Holds the values of a block that some later op still reads.
template <typename T> class Live {
public:
  void define(Value value, Held<T> tensor) {
    auto uses = std::distance(value.use_begin(), value.use_end());
    if (uses != 0)
      values[value] = {std::move(tensor), uses};
  }
  Held<T> use(Value value) {
    auto found = values.find(value);
    Held<T> tensor = found->second.first;
    if (--found->second.second == 0)
      values.erase(found);
    return tensor;
  }

private:
  llvm::DenseMap<Value, std::pair<Held<T>, int64_t>> values;
};

template <typename T> HeldList<T> hold(std::vector<TensorOf<T>> tensors) {
  HeldList<T> held;
  for (TensorOf<T> &tensor : tensors)
    held.push_back(std::make_shared<const TensorOf<T>>(std::move(tensor)));
  return held;
}

template <typename T> Held<T> Interpreter<T>::fitted(Type type, Held<T> tensor) const {
  if constexpr (std::is_same_v<T, double>)
    if (rounding == Rounding::ToTypes) {
      Tensor copy = *tensor;
      roundTo(type, copy);
      return std::make_shared<const Tensor>(std::move(copy));
    }
  return tensor;
}

template <typename T>
FailureOr<HeldList<T>> Interpreter<T>::run(Block &block, HeldList<T> arguments) {
  Live<T> live;
  for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments))
    live.define(argument, fitted(argument.getType(), tensor));
  arguments.clear();
  for (Operation &op : block) {
    HeldList<T> operands;
    for (Value operand : op.getOperands())
      operands.push_back(live.use(operand));
    if (op.hasTrait<OpTrait::IsTerminator>())
      return operands;
    FailureOr<HeldList<T>> results = runOp(&op, operands);
    if (failed(results))
      return failure();
    for (auto [result, tensor] : llvm::zip(op.getResults(), *results))
      live.define(result, fitted(result.getType(), tensor));
  }
  return HeldList<T>();
}

template <typename T>
FailureOr<HeldList<T>> Interpreter<T>::runOp(Operation *op, ArrayRef<Held<T>> operands) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return runRepeat(repeat, operands);
  if (auto call = dyn_cast<func::CallOp>(op))
    return runCall(call, operands);
  SmallVector<const TensorOf<T> *> inputs;
  for (const Held<T> &operand : operands)
    inputs.push_back(operand.get());
  if (auto graphOp = dyn_cast<GraphOpInterface>(op))
    return runGraphOp(graphOp, inputs);
  return runForeign(op, inputs);
}

template <typename T>
HeldList<T> Interpreter<T>::runGraphOp(GraphOpInterface op, ArrayRef<const TensorOf<T> *> inputs) const {
  std::vector<TensorOf<T>> outputs = runOne<T>(op, inputs);
  if constexpr (std::is_same_v<T, double>)
    if (observe)
      observe(op, layer, outputs);
  return hold(std::move(outputs));
}

template <typename T>
FailureOr<HeldList<T>> Interpreter<T>::runForeign(Operation *op,
                                                  ArrayRef<const TensorOf<T> *> inputs) {
  if constexpr (std::is_same_v<T, double>)
    if (foreign) {
      FailureOr<std::vector<Tensor>> outputs = foreign(op, inputs);
      if (failed(outputs))
        return failure();
      return hold(std::move(*outputs));
    }
  return op->emitOpError("has no reference meaning, expected an op of the graph dialect");
}

template <typename T>
FailureOr<HeldList<T>> Interpreter<T>::runRepeat(RepeatOp op, ArrayRef<Held<T>> operands) {
  size_t carried = op.getCarried().size(), stacked = op.getStacked().size();
  HeldList<T> values(operands.take_front(carried));
  std::vector<TensorOf<T>> results;
  for (Value result : op.getStackedResults())
    results.emplace_back(shapeOf(result).vec());
  int64_t count = op.getCount(), outer = layer;
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = layer = op.getReverse() ? count - 1 - step : step;
    HeldList<T> arguments = std::move(values);
    for (const Held<T> &whole : operands.slice(carried, stacked)) {
      TensorOf<T> part(std::vector<int64_t>(whole->shape.begin() + 1, whole->shape.end()));
      std::copy_n(whole->data.begin() + i * part.size(), part.size(), part.data.begin());
      arguments.push_back(std::make_shared<const TensorOf<T>>(std::move(part)));
    }
    llvm::append_range(arguments, operands.drop_front(carried + stacked));
    FailureOr<HeldList<T>> yielded = run(op.getBlock(), std::move(arguments));
    if (failed(yielded))
      return failure();
    values.assign(yielded->begin(), yielded->begin() + carried);
    for (size_t k = 0; k < results.size(); ++k) {
      const TensorOf<T> &part = *(*yielded)[carried + k];
      llvm::copy(part.data, results[k].data.begin() + i * part.size());
    }
  }
  layer = outer;
  llvm::append_range(values, hold(std::move(results)));
  return values;
}

template <typename T>
FailureOr<HeldList<T>> Interpreter<T>::runCall(func::CallOp op, ArrayRef<Held<T>> operands) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
  if (!callee || callee.isExternal())
    return op.emitOpError("calls @") << op.getCallee() << ", which has no body";
  return run(callee.front(), HeldList<T>(operands));
}

template <typename T>
FailureOr<std::vector<TensorOf<T>>> evaluateBlock(Block &block, ArrayRef<TensorOf<T>> inputs,
                                                  Foreign foreign,
                                                  Rounding rounding = Rounding::None,
                                                  Observe observe = nullptr) {
  HeldList<T> arguments;
  for (const TensorOf<T> &input : inputs)
    arguments.push_back(std::make_shared<const TensorOf<T>>(input));
  FailureOr<HeldList<T>> results = Interpreter<T>(foreign, rounding, observe).run(block, std::move(arguments));
  if (failed(results))
    return failure();
  std::vector<TensorOf<T>> outputs;
  for (const Held<T> &result : *results)
    outputs.push_back(*result);
  return outputs;
}

template <typename T>
FailureOr<std::vector<TensorOf<T>>> evaluateFunc(func::FuncOp func, ArrayRef<TensorOf<T>> inputs,
                                                 Foreign foreign,
                                                 Rounding rounding = Rounding::None,
                                                 Observe observe = nullptr) {
  if (func.isExternal() || func.getNumArguments() != inputs.size())
    return func.emitOpError("has ") << func.getNumArguments() << " arguments"
                                    << (func.isExternal() ? " and no body" : "") << ", got "
                                    << inputs.size() << " inputs";
  for (auto [i, input] : llvm::enumerate(inputs))
    if (shapeOf(func.getArgument(i)) != ArrayRef<int64_t>(input.shape))
      return func.emitOpError("argument ")
             << i << " has shape " << shapeText(shapeOf(func.getArgument(i))) << ", got "
             << shapeText(input.shape);
  return evaluateBlock(func.front(), inputs, foreign, rounding, observe);
}

} // namespace

std::vector<Tensor> evaluateOp(GraphOpInterface op, ArrayRef<const Tensor *> inputs) {
  return runOne<double>(op, inputs);
}
FailureOr<std::vector<Tensor>> evaluate(func::FuncOp func, ArrayRef<Tensor> inputs, Foreign foreign,
                                        Rounding rounding, Observe observe) {
  return evaluateFunc(func, inputs, foreign, rounding, observe);
}
FailureOr<std::vector<DualTensor>> evaluateDual(func::FuncOp func, ArrayRef<DualTensor> inputs) {
  return evaluateFunc(func, inputs, nullptr);
}
FailureOr<std::vector<Tensor>> evaluate(Block &block, ArrayRef<Tensor> inputs) {
  return evaluateBlock(block, inputs, nullptr);
}
FailureOr<std::vector<BoundedTensor>> evaluateBounded(Block &block, ArrayRef<BoundedTensor> inputs) {
  return evaluateBlock(block, inputs, nullptr);
}

} // namespace llmc::graph
