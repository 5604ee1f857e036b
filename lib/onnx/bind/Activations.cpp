#include "lib/onnx/bind/Activations.h"

#include "dialects/graph/Build.h"

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;

bool Activations::holds(Value value) {
  llvm::SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value top = open.back();
    if (known_.count(top)) {
      open.pop_back();
      continue;
    }
    Operation *op = top.getDefiningOp();
    if (!op || !graph::isFloat(top)) {
      known_[top] = !op && graph::isFloat(top);
      continue;
    }
    size_t before = open.size();
    bool found = false;
    for (Value operand : op->getOperands())
      if (auto it = known_.find(operand); it == known_.end())
        open.push_back(operand);
      else
        found |= it->second;
    if (found || open.size() == before)
      known_[top] = found;
  }
  return known_[value];
}

bool Activations::meetsActivation(Value value) {
  llvm::SmallVector<Value> open = {value};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!open.empty()) {
    Value top = open.pop_back_val();
    for (Operation *user : top.getUsers()) {
      if (!seen.insert(user).second || isa<graph::CompareOp>(user))
        continue;
      for (Value operand : user->getOperands())
        if (operand != top && holds(operand))
          return true;
      for (Value result : user->getResults())
        if (graph::isFloat(result))
          open.push_back(result);
    }
  }
  return false;
}

bool llmc::onnximport::isScoreOffset(Value value) {
  llvm::SmallVector<Value> open = {value};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!open.empty())
    for (Operation *user : open.pop_back_val().getUsers()) {
      if (isa<graph::SoftmaxOp>(user))
        return true;
      bool passes =
          isa<graph::AddOp, graph::SubOp, graph::ReshapeOp, graph::BroadcastOp, graph::TransposeOp,
              graph::SliceOp, graph::SelectOp, graph::MaximumOp>(user);
      if (passes && seen.insert(user).second)
        open.push_back(user->getResult(0));
    }
  return false;
}
