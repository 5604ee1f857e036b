// Recognises mixtures of experts by what is computed of their routes.
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/RaiseExperts/Mixture.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISEEXPERTS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

namespace {

struct RaiseExperts : llmc::impl::RaiseExpertsBase<RaiseExperts> {
  // Returns whether products of routed rows follow already, as an importer writes them that knows mixtures.
  static bool isRaised(RouteOp route) {
    return llvm::any_of(route.getRoutes().getUsers(), [&](Operation *user) {
      auto product = dyn_cast<GroupedMatmulOp>(user);
      return product && product.getRoutes() == route.getRoutes();
    });
  }

  void runOnOperation() override {
    SmallVector<RouteOp> routes;
    bool unrolled = false; // said of one layer
    getOperation().walk([&](RouteOp op) { routes.push_back(op); });
    for (RouteOp route : routes) {
      if (isRaised(route))
        continue;
      Mixture mixture(route);
      mixture.follow();
      numProducts += mixture.replace();
      if (mixture.unrolledFor() && !std::exchange(unrolled, true))
        route.emitRemark("the loop over experts is unrolled for the ")
            << mixture.unrolledFor() << " of " << mixture.experts()
            << " that had tokens in the exporter's example: as written, no other number of them runs; here all do";
    }
    IRRewriter rewriter(&getContext());
    if (!routes.empty())
      (void)runRegionDCE(rewriter, getOperation()->getRegions());
  }
};

} // namespace
