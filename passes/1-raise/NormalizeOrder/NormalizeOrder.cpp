// Gives all modules of the same structure one order, in three steps: operands of commutative ops,
// then ops, then arguments, states and sources.
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/NormalizeOrder/ColorRefinement.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_NORMALIZEORDER
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

//===-- Operands ------------------------------------------------------------===//

static void swapOperands(Operation *op) {
  Value first = op->getOperand(0), second = op->getOperand(1);
  op->setOperands({second, first});
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    Equation equation = equationOf(matmul);
    std::swap(equation.lhs, equation.rhs);
    matmul.setEquation(equation.str());
  }
}

static void orderOperands(func::FuncOp func) {
  ColorRefinement colors(func);
  for (Operation &op : func.getBody().front())
    if (isCommutative(&op) && colors.less(op.getOperand(1), op.getOperand(0)))
      swapOperands(&op);
}

// Names letters by position: the left operand's are the usual ones of its rank, those that the
// right one adds come from a fixed list.
static void nameLetters(MatmulOp matmul) {
  static const StringRef usual[] = {"", "d", "sd", "bsd", "bhsd", "abhsd", "abchsd"};
  Equation equation = equationOf(matmul);
  size_t rank = equation.lhs.size();
  if (rank >= std::size(usual))
    return;
  std::map<char, char> names;
  std::string used = usual[rank].str();
  for (auto [letter, name] : llvm::zip(equation.lhs, usual[rank]))
    names[letter] = name;
  StringRef more = "etuvwxyzfgijklmnopqrabcdhs";
  for (char letter : equation.rhs) {
    if (names.count(letter))
      continue;
    more = more.drop_while([&](char c) { return has(used, c); });
    if (more.empty())
      return;
    names[letter] = more.front();
    used += more.front();
  }
  for (std::string *letters : {&equation.lhs, &equation.rhs, &equation.result})
    for (char &letter : *letters)
      letter = names.at(letter);
  matmul.setEquation(equation.str());
}

//===-- Ops -----------------------------------------------------------------===//

// Returns the ops in post-order from the results, first operands first.
static SmallVector<Operation *> postOrder(func::FuncOp func) {
  SmallVector<Operation *> order;
  llvm::DenseSet<Operation *> done;
  SmallVector<std::pair<Operation *, unsigned>> stack;
  Operation *terminator = func.getBody().front().getTerminator();
  stack.push_back({terminator, 0});
  while (!stack.empty()) {
    auto &[op, next] = stack.back();
    if (next < op->getNumOperands()) {
      Operation *needed = op->getOperand(next++).getDefiningOp();
      if (needed && !done.contains(needed))
        stack.push_back({needed, 0});
      continue;
    }
    if (done.insert(op).second)
      order.push_back(op);
    stack.pop_back();
  }
  order.pop_back(); // the terminator
  return order;
}

// Finds values that are computed from parameters and constants alone.
class ParameterExpressions {
public:
  explicit ParameterExpressions(ArrayRef<Operation *> order) {
    for (Operation *op : order)
      if (!op->getNumRegions() && llvm::all_of(op->getOperands(), [&](Value operand) {
            return isParameter(operand) || forms.contains(operand);
          }))
        add(op);
  }

  // Returns the ops behind values that all layers share (a bias of distances): such a value is used
  // in several places, and no other value is computed in the same way. What a layer computes from
  // its own parameters (1 + scale) is computed in the same way by each.
  llvm::DenseSet<Operation *> shared(ArrayRef<Operation *> order) const {
    llvm::DenseSet<Operation *> found;
    for (Operation *op : llvm::reverse(order))
      if (found.contains(op) || (isAlone(op) && isUsedBySeveral(op)))
        for (Value operand : op->getOperands()) {
          found.insert(op);
          if (Operation *made = operand.getDefiningOp())
            found.insert(made);
        }
    return found;
  }

private:
  void add(Operation *op) {
    using Flags = OperationEquivalence::Flags;
    llvm::hash_code form = OperationEquivalence::computeHash(
        op,
        [&](Value operand) {
          auto made = forms.find(operand);
          return made == forms.end() ? hash_value(operand.getType()) : made->second;
        },
        OperationEquivalence::ignoreHashValue,
        Flags(Flags::IgnoreLocations | Flags::IgnoreDiscardableAttrs));
    ++counts[form];
    for (Value result : op->getResults())
      forms[result] = llvm::hash_combine(form, cast<OpResult>(result).getResultNumber());
    ofOps[op] = form;
  }
  bool isAlone(Operation *op) const {
    auto form = ofOps.find(op);
    return form != ofOps.end() && op->getNumOperands() && counts.lookup(form->second) == 1;
  }
  bool isUsedBySeveral(Operation *op) const {
    llvm::SmallPtrSet<Operation *, 4> users(op->user_begin(), op->user_end());
    return users.size() > 1 &&
           llvm::any_of(users, [&](Operation *u) { return !ofOps.contains(u); });
  }

  DenseMap<Value, llvm::hash_code> forms; // equal for values that are computed in the same way
  DenseMap<Operation *, size_t> ofOps;
  DenseMap<size_t, unsigned> counts;
};

static void orderOps(func::FuncOp func) {
  Block &block = func.getBody().front();
  SmallVector<Operation *> order = postOrder(func);
  llvm::DenseSet<Operation *> shared = ParameterExpressions(order).shared(order);
  llvm::DenseSet<Value> weighted; // depends on a parameter
  SmallVector<Operation *> front, rest;
  for (Operation *op : order) {
    bool depends = llvm::any_of(op->getOperands(), [&](Value operand) {
      return isParameter(operand) || weighted.contains(operand);
    });
    if (depends)
      weighted.insert(op->result_begin(), op->result_end());
    (depends && !shared.contains(op) ? rest : front).push_back(op);
  }
  for (Operation *op : llvm::concat<Operation *>(front, rest))
    op->moveBefore(block.getTerminator());
  // Dead ops are now in front of all others, each before its users.
  size_t live = order.size();
  size_t dead = std::distance(block.begin(), block.end()) - 1 - live;
  SmallVector<Operation *> unused;
  for (Operation &op : llvm::make_range(block.begin(), std::next(block.begin(), dead)))
    unused.push_back(&op);
  for (Operation *op : llvm::reverse(unused))
    op->erase();
}

//===-- Arguments -----------------------------------------------------------===//

static void orderArguments(func::FuncOp func) {
  llvm::SetVector<Value> used;
  for (Operation &op : func.getBody().front())
    used.insert(op.operand_begin(), op.operand_end());
  SmallVector<BlockArgument> inputs, parameters;
  bool all = isInference(func->getParentOfType<ModuleOp>());
  if (all)
    llvm::copy_if(func.getArguments(), std::back_inserter(inputs),
                  [](BlockArgument argument) { return !isParameter(argument); });
  for (Value value : used)
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (isParameter(argument))
        parameters.push_back(argument);
      else if (!all)
        inputs.push_back(argument);
    }
  inputs.append(parameters);
  Parameters(func).reorder(inputs);
}

namespace {

struct NormalizeOrder : llmc::impl::NormalizeOrderBase<NormalizeOrder> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      mergeEqual(func);
      orderOperands(func);
      func.walk([](MatmulOp matmul) { nameLetters(matmul); });
      mergeEqual(func); // equal now that the operands are in order
      orderOps(func);
      Parameters(func).eraseUnused();
      orderArguments(func);
    }
  }

  static void mergeEqual(func::FuncOp func) {
    IRRewriter rewriter(func.getContext());
    DominanceInfo dominance(func);
    eliminateCommonSubExpressions(rewriter, dominance, func);
  }
};

} // namespace
