#include "passes/2-train/ForwardSums.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

Value train::addOverLayers(func::FuncOp forward, MutableArrayRef<Value> terms, SumOver how) {
  Block &body = forward.getBody().front();
  OpBuilder builder(&body, body.begin());
  Value total = Build(builder, terms.front().getLoc()).constantLike(0, terms.front());
  for (size_t i = 0, next = 0; i < terms.size(); i = next) {
    Block *block = terms[i].getParentBlock();
    Value sum;
    for (next = i; next < terms.size() && terms[next].getParentBlock() == block; ++next) {
      builder.setInsertionPointAfter(terms[next].getDefiningOp());
      sum = sum ? Build(builder, terms[next].getLoc()).add(sum, terms[next]) : terms[next];
    }
    auto repeat = dyn_cast<RepeatOp>(block->getParentOp());
    if (repeat && how == SumOver::carried) {
      total = addCarried(builder, repeat, total, sum).second;
      continue;
    }
    if (repeat) {
      Value stack = addStackedResult(builder, repeat, sum).second;
      builder.setInsertionPointAfterValue(stack);
      sum = Build(builder, sum.getLoc()).reduce(stack, ReduceKind::sum, {0});
    }
    builder.setInsertionPointAfterValue(sum);
    total = Build(builder, sum.getLoc()).add(total, sum);
  }
  return total;
}

Value train::sumAll(func::FuncOp forward, Value value) {
  if (typeOf(value).getRank() == 0)
    return value;
  OpBuilder builder(forward.getBody().front().getTerminator());
  return Build(builder, value.getLoc())
      .reduce(value, ReduceKind::sum, llvm::to_vector(llvm::seq<int64_t>(typeOf(value).getRank())));
}

void train::addOutput(func::FuncOp forward, Value value, StringRef name) {
  Operation *end = forward.getBody().front().getTerminator();
  end->insertOperands(end->getNumOperands(), value);
  Builder builder(forward.getContext());
  (void)forward.insertResult(forward.getNumResults(), value.getType(),
                             builder.getDictionaryAttr(builder.getNamedAttr(kOutput, builder.getStringAttr(name))));
}
