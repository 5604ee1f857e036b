#include "passes/5-schedule/VerifySchedule/Masks.h"

#include "dialects/graph/Build.h"

using namespace mlir;
using namespace llmc;

namespace {

// Tells what a tensor depends on; of an op's operands the last in this order decides.
enum class Content { Constant, Mask, Data };

using Contents = llvm::DenseMap<Value, Content>;

} // namespace

// Returns the content of an op's results. Draws of dropout are no data: they name elements.
static Content contentOf(Operation &op, const Contents &contents) {
  bool drops = isa<graph::DropoutOp>(op);
  Content content = drops ? Content::Mask : Content::Constant;
  for (Value operand : op.getOperands().take_front(drops ? 1 : op.getNumOperands()))
    content = std::max(content, contents.lookup_or(operand, Content::Data));
  return content;
}

// Visits a launch: `contents` has the buffers that were written before it, and gets those it writes.
static LogicalResult visit(plan::LaunchOp launch, Contents &contents) {
  Block &body = launch.getBody().front();
  for (auto [argument, buffer] : llvm::zip(body.getArguments(), launch.getReads()))
    contents[argument] = contents.lookup_or(buffer, Content::Data);
  for (BlockArgument scalar : body.getArguments().drop_front(launch.getReads().size()))
    contents[scalar] = Content::Constant; // the rank's place in the mesh
  for (Operation &op : body.without_terminator())
    for (Value result : op.getResults())
      contents[result] = contentOf(op, contents);
  bool isGood = true;
  for (auto [buffer, result] : llvm::zip(launch.getWrites(), body.getTerminator()->getOperands())) {
    Content content = contents.lookup(result);
    contents[buffer] = content;
    if (content != Content::Mask)
      continue;
    launch.emitError("V5: writes a mask of dropout, of ")
        << graph::typeOf(result) << ", to a buffer; drop the data in place of ones, since a mask is drawn "
        << "again wherever it is needed";
    isGood = false;
  }
  return success(isGood);
}

LogicalResult llmc::verifyNoMasks(plan::StageOp stage) {
  Contents contents;
  bool isGood = true;
  stage.walk<WalkOrder::PreOrder>([&](plan::LaunchOp launch) { isGood &= succeeded(visit(launch, contents)); });
  return success(isGood);
}
