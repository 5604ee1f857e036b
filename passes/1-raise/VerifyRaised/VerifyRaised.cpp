// Checks what the later phases rely on, and remarks on what was not recognised.
#include "dialects/graph/GraphAttrs.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/RowStatistics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_VERIFYRAISED
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

namespace {

// Describes a view as a box in the index space of its source: per source dim the first index, the
// number of indices and their distance, 1 or more.
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

// Returns the box of a view; nullopt if the view mixes dims of the source.
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
      int64_t by = stride / sourceStrides[i], last = first + (size - 1) * by;
      if (count != 1 || stride % sourceStrides[i] || last < 0 || last >= source[i])
        continue;
      first = std::min(first, last);
      count = by ? size : 1; // a stride of 0 repeats one index
      step = std::max<int64_t>(std::abs(by), 1);
      placed = true;
    }
    if (!placed)
      return std::nullopt;
  }
  return box;
}

void remarkOn(func::FuncOp func);

struct VerifyRaised : llmc::impl::VerifyRaisedBase<VerifyRaised> {
  using Base::Base;

  void runOnOperation() override {
    bool valid = verifySources();
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      valid &= verifyArguments(func);
      valid &= verifyRepeats(func);
      if (remark)
        remarkOn(func);
    }
    if (!valid)
      signalPassFailure();
    markAllAnalysesPreserved();
  }

  // Checks R1.
  static bool verifyArguments(func::FuncOp func) {
    Parameters parameters(func);
    llvm::DenseMap<Operation *, unsigned> bound;
    bool valid = true;
    for (BlockArgument argument : func.getArguments()) {
      unsigned i = argument.getArgNumber();
      StateOp state = parameters.stateOf(argument);
      if (!state && !func.getArgAttr(i, graph::kInput)) {
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

  // Checks R2.
  bool verifySources() {
    std::map<StringRef, SmallVector<Box>> boxes;
    SymbolTable symbols(getOperation());
    bool valid = true;
    for (auto state : getOperation().getOps<StateOp>()) {
      if (!state.getViews())
        continue;
      ArrayRef<int64_t> shape = cast<RankedTensorType>(state.getType()).getShape();
      shape = shape.drop_front(state.getViewedDims());
      for (auto view : state.getViews()->getAsRange<ViewAttr>()) {
        auto source = symbols.lookup<SourceOp>(view.getSource().getValue());
        if (!source)
          continue; // the verifier of graph.state reports it
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

  // Checks R3.
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

};

//===-- What was not recognised ---------------------------------------------===//

// Returns whether `value` is a matmul behind masks, numbers, a softcap and another shape.
bool isProduct(Value value, int depth = 8) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<MatmulOp>(op))
    return true;
  return depth > 0 && isa_and_nonnull<AddOp, SubOp, MulOp, DivOp, SelectOp, TanhOp, ReshapeOp>(op) &&
         llvm::any_of(op->getOperands(),
                      [&](Value operand) { return isProduct(operand, depth - 1); });
}

bool isAttention(SoftmaxOp softmax) {
  return isProduct(softmax.getOperand()) &&
         llvm::any_of(softmax->getUsers(), [](Operation *user) {
           return isa<MatmulOp>(user) ||
                  (isa<ReshapeOp>(user) && llvm::any_of(user->getUsers(), [](Operation *next) {
                     return isa<MatmulOp>(next);
                   }));
         });
}

bool isNorm(Operation *op) {
  if (!isa<SqrtOp, RsqrtOp, PowOp>(op))
    return false;
  double eps = 0;
  for (bool inverse : {false, true})
    if (Value variance = deviationOf(op->getResult(0), inverse, eps))
      return bool(meanSquareOf(variance));
  return false;
}

// Returns whether a product takes the negative of one half of a value beside the other half.
bool isRotation(ConcatOp concat) {
  if (concat.getInputs().size() != 2)
    return false;
  auto negative = concat.getInputs()[0].getDefiningOp<NegOp>();
  auto high = negative ? negative.getOperand().getDefiningOp<SliceOp>() : SliceOp();
  auto low = concat.getInputs()[1].getDefiningOp<SliceOp>();
  return high && low && high.getOperand() == low.getOperand() &&
         llvm::any_of(concat->getUsers(), [](Operation *user) { return isa<MulOp>(user); });
}

// Adds "3 norms (cost)" to `parts`, or nothing if `count` is 0.
void add(SmallVectorImpl<std::string> &parts, int64_t count, StringRef what, StringRef cost) {
  auto [noun, rest] = what.split(" of "); // "mixture of experts": the first word has a plural
  StringRef link = rest.empty() ? "" : " of ";
  if (count)
    parts.push_back(
        (Twine(count) + " " + noun + (count > 1 ? "s" : "") + link + rest + " (" + cost + ")").str());
}

// Bounds the elements of a mask that is not worth a remark.
constexpr int64_t kSmallMask = int64_t(1) << 20;

// Adds the masks of attentions that have a number for each row and key, with the size of the largest.
void addMasks(SmallVectorImpl<std::string> &parts, func::FuncOp func) {
  int64_t count = 0, bytes = 0;
  func.walk([&](AttentionOp op) {
    Value mask = op.getMask();
    if (!mask || shapeOf(mask)[2] == 1 || typeOf(mask).getNumElements() < kSmallMask)
      return;
    ++count;
    int64_t bits = elementOf(mask).isInteger(1) ? 8 : elementOf(mask).getIntOrFloatBitWidth();
    bytes = std::max(bytes, typeOf(mask).getNumElements() * bits / 8);
  });
  add(parts, count, "mask",
      (Twine("no rule gives it: it takes ") + Twine(llvm::divideCeil(bytes, int64_t(1) << 20)) + " MiB")
          .str());
}

// Returns whether the op chooses by scores, no numbers of experts that it sorts, for no product by experts, and not
// the groups of a mixture that was found beside it.
bool isOtherChoice(RouteOp op) {
  Value scores = op.getScores();
  while (isa_and_nonnull<ReshapeOp, NegOp, CastOp>(scores.getDefiningOp()))
    scores = scores.getDefiningOp()->getOperand(0);
  auto isMixture = [](RouteOp other) { return other.getMixture(); };
  return llvm::none_of(op->getBlock()->getOps<RouteOp>(), isMixture) && !scores.getDefiningOp<RouteOp>();
}

void remarkOn(func::FuncOp func) {
  int64_t attentions = 0, norms = 0, rotations = 0, alone = 0, choices = 0;
  func.walk([&](Operation *op) {
    bool inside = op->getParentOfType<RepeatOp>();
    bool attention = isa<SoftmaxOp>(op) && isAttention(cast<SoftmaxOp>(op));
    attentions += attention;
    norms += isNorm(op);
    rotations += isa<ConcatOp>(op) && isRotation(cast<ConcatOp>(op));
    choices += isa<RouteOp>(op) && isOtherChoice(cast<RouteOp>(op));
    alone += !inside && (attention || isa<AttentionOp>(op));
  });
  SmallVector<std::string> parts;
  add(parts, attentions, "attention", "scores are kept for the backward pass, rows x keys a head");
  add(parts, norms, "norm", "computed op by op, and each step is kept");
  add(parts, rotations, "rotary embedding", "computed op by op");
  add(parts, choices, "choice of the largest scores",
      "what follows it, such as a mixture of experts, runs as it is written, on every rank");
  addMasks(parts, func);
  add(parts, alone > 1 ? alone : 0, "layer",
      "they differ: compile time and program grow with their number");
  if (!parts.empty())
    func.emitRemark("not recognised: ") << llvm::join(parts, ", ");
}

} // namespace
