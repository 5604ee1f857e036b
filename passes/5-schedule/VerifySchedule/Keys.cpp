#include "passes/5-schedule/VerifySchedule/Keys.h"

#include "dialects/graph/Build.h"

using namespace mlir;
using namespace llmc;
using graph::shapeOf;

LogicalResult llmc::verifyRingKeys(plan::StageOp stage) {
  auto options = stage->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>("plan.options");
  auto kind = options ? options.getAs<StringAttr>("cp_kind") : StringAttr();
  if (!kind || kind.getValue() != "ring")
    return success();
  bool isGood = true;
  stage.walk([&](plan::LaunchOp launch) {
    for (Operation &op : launch.getBody().front()) {
      bool isGrad = isa<graph::AttentionGradOp>(op);
      if (!isGrad && !isa<graph::AttentionOp>(op))
        continue;
      int64_t rows = shapeOf(op.getOperand(isGrad))[1], keys = shapeOf(op.getOperand(isGrad + 1))[1];
      if (keys <= rows)
        continue;
      launch.emitError("V6: has ") << keys << " keys for " << rows << " rows, those of several ranks of a ring; a "
                                   << "rank has as many keys as rows, and the others in turn";
      isGood = false;
    }
  });
  return success(isGood);
}
