// Groups ops that one kernel can compute.
#include "passes/5-schedule/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/5-schedule/FuseKernels/Fusion.h"

namespace llmc {
#define GEN_PASS_DEF_FUSEKERNELS
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

struct FuseKernels : impl::FuseKernelsBase<FuseKernels> {
  using FuseKernelsBase::FuseKernelsBase;

  void runOnBlock(Block &block) {
    llvm::DenseSet<Operation *> whole;
    fusion::expandReductions(block, whole);
    // In the second round, the reductions that the first one split off join their users.
    for (int round = 0; round < 2; ++round) {
      std::vector<fusion::FusionGroup> groups = fusion::findGroups(block, whole);
      for (const fusion::FusionGroup &group : groups)
        numGrouped += group.members.size();
      numGroups += groups.size();
      fusion::buildGroups(block, groups, whole);
    }
  }

  void runOnOperation() override {
    if (!fuse)
      return;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<Block *> blocks;
      func.walk([&](Block *block) { blocks.push_back(block); });
      for (Block *block : blocks)
        runOnBlock(*block);
    }
  }
};

} // namespace
} // namespace llmc
