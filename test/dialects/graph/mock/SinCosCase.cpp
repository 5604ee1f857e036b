#include "test/dialects/graph/Cases.h"
#include "test/dialects/graph/mock/SinCos.h"

using namespace mlir;

namespace llmc::graph::test {

Case drawSinCos(Random &random) {
  return {"mock.sin_cos", {{Argument::Any, random.shape(0, 3)}},
          [](OpBuilder &builder, Location loc, ValueRange arguments) -> Operation * {
            return SinCosOp::create(builder, loc, arguments[0]);
          }};
}

} // namespace llmc::graph::test
