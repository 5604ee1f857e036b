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
  void runOnOperation() override {
    SmallVector<RouteOp> routes;
    bool unrolled = false; // said of one layer
    getOperation().walk([&](RouteOp op) { routes.push_back(op); });
    for (RouteOp route : routes) {
      if (route.getMixture()) // as an importer writes it that knows mixtures
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
