// The gate at the end of phase 1.
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_VERIFYRAISED
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

namespace {

// A view as a box in the index space of its source: per source dim the first
// index, the number of indices and their distance.
struct Box {
  StateOp state;
  SmallVector<std::array<int64_t, 3>> dims;

  bool apartFrom(const Box &other) const {
    for (auto [a, b] : llvm::zip(dims, other.dims)) {
      if (a[0] + (a[1] - 1) * a[2] < b[0] || b[0] + (b[1] - 1) * b[2] < a[0])
        return true;
      if (a[2] == b[2] && (a[0] - b[0]) % a[2])
        return true; // interleaved
    }
    return false;
  }
};

// Nothing if the view mixes dims of the source.
std::optional<Box> boxOf(StateOp state, ViewAttr view, ArrayRef<int64_t> shape,
                         ArrayRef<int64_t> source) {
  Box box{state, {}};
  SmallVector<int64_t> sourceStrides(source.size(), 1);
  for (size_t i = source.size(); i-- > 1;)
    sourceStrides[i - 1] = sourceStrides[i] * source[i];
  int64_t rest = view.getOffset();
  for (int64_t stride : sourceStrides) {
    box.dims.push_back({rest / stride, 1, 1});
    rest %= stride;
  }
  for (auto [stride, size] : extentsOf(view, shape)) {
    bool placed = false;
    for (size_t i = 0; !placed && i < source.size(); ++i) {
      auto &[first, count, step] = box.dims[i];
      if (count != 1 || stride % sourceStrides[i] ||
          first + (size - 1) * (stride / sourceStrides[i]) >= source[i])
        continue;
      count = size;
      step = stride / sourceStrides[i];
      placed = true;
    }
    if (!placed)
      return std::nullopt;
  }
  return box;
}

struct VerifyRaised : llmc::impl::VerifyRaisedBase<VerifyRaised> {
  void runOnOperation() override {
    bool valid = verifySources();
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      valid &= verifyArguments(func);
      valid &= verifyRepeats(func);
      remark(func);
    }
    if (!valid)
      signalPassFailure();
    markAllAnalysesPreserved();
  }

  // R1
  static bool verifyArguments(func::FuncOp func) {
    Parameters parameters(func);
    llvm::DenseMap<Operation *, unsigned> bound;
    bool valid = true;
    for (BlockArgument argument : func.getArguments()) {
      unsigned i = argument.getArgNumber();
      StateOp state = parameters.stateOf(argument);
      if (!state && !func.getArgAttr(i, "graph.input")) {
        func.emitError("R1: argument ") << i
                                        << " is neither an input nor bound to a state; give "
                                           "it graph.input or graph.state";
        valid = false;
      } else if (state && state.getType() != argument.getType()) {
        func.emitError("R1: argument ")
            << i << " has type " << argument.getType() << ", its state @" << state.getSymName()
            << " " << state.getType() << "; make them equal";
        valid = false;
      } else if (state && !bound.insert({state, i}).second) {
        func.emitError("R1: arguments ") << bound[state] << " and " << i << " are both bound to @"
                                         << state.getSymName() << "; use one argument";
        valid = false;
      }
    }
    return valid;
  }

  // R2
  bool verifySources() {
    std::map<StringRef, SmallVector<Box>> boxes;
    SymbolTable symbols(getOperation());
    bool valid = true;
    for (auto state : getOperation().getOps<StateOp>()) {
      if (!state.getViews())
        continue;
      ArrayRef<int64_t> shape = cast<RankedTensorType>(state.getType()).getShape();
      if (state.getStacked())
        shape = shape.drop_front();
      for (auto view : state.getViews()->getAsRange<ViewAttr>()) {
        auto source = symbols.lookup<SourceOp>(view.getSource().getValue());
        if (!source)
          continue; // the verifier of graph.state says so
        auto type = cast<RankedTensorType>(source.getType());
        if (auto box = boxOf(state, view, shape, type.getShape()))
          boxes[source.getSymName()].push_back(*box);
      }
    }
    for (auto &[name, list] : boxes)
      for (size_t i = 0; i < list.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (!list[i].apartFrom(list[j])) {
            list[i].state.emitError("R2: views elements of '")
                << name << "' that @" << list[j].state.getSymName()
                << " views too; each element belongs to one parameter";
            valid = false;
          }
    return valid;
  }

  // R3
  static bool verifyRepeats(func::FuncOp func) {
    bool valid = true;
    func.walk([&](RepeatOp repeat) {
      if (repeat.getCarried().empty()) {
        repeat.emitError(
            "R3: carries no value from layer to layer; a fold without one is no layer");
        valid = false;
      }
    });
    return valid;
  }

  static bool productOf(Value value) {
    for (int depth = 0; depth < 4; ++depth) {
      Operation *op = value.getDefiningOp();
      if (!op || isa<MatmulOp>(op))
        return op != nullptr;
      if (!isa<AddOp, MulOp, DivOp, SelectOp>(op))
        return false;
      unsigned first = isa<SelectOp>(op) ? 1 : 0;
      value = op->getOperand(first);
    }
    return false;
  }

  static void remark(func::FuncOp func) {
    int64_t left = 0;
    func.walk([&](SoftmaxOp softmax) {
      bool used =
          llvm::any_of(softmax->getUsers(), [](Operation *user) { return isa<MatmulOp>(user); });
      left += used && productOf(softmax.getOperand());
    });
    if (left)
      func.emitRemark() << left
                        << " softmax between two matmuls not recognised as attention (the mask is "
                           "not causal by its values, or the shapes are unusual): scores are kept "
                           "for the backward pass, rows x keys per head";
  }
};

} // namespace
