// Declares the generators that generators() lists; each draws one random launch.
#ifndef LLMC_TEST_PASSES_EMIT_GENERATORS_H
#define LLMC_TEST_PASSES_EMIT_GENERATORS_H

#include "Cases.h"

namespace llmc::test {

Case makeBinary(Random &random);
Case makePower(Random &random);
Case makeUnary(Random &random);
Case makeGeluGrad(Random &random);
Case makeDropout(Random &random);
Case makeLogic(Random &random);
Case makeCast(Random &random);
Case makeChain(Random &random);
Case makeAdamW(Random &random);
Case makeIndexed(Random &random);
Case makeTranspose(Random &random);
Case makeBroadcast(Random &random);
Case makeSlice(Random &random);
Case makePad(Random &random);
Case makeConcat(Random &random);
Case makeReshape(Random &random);
Case makeConstant(Random &random);

Case makeReduce(Random &random);
Case makeReduceGroup(Random &random);
Case makeRowGroup(Random &random);
Case makeSoftmax(Random &random);
Case makeSoftmaxGrad(Random &random);
Case makeLayerNorm(Random &random);
Case makeLayerNormGrad(Random &random);
Case makeLayerNormGradScale(Random &random);
Case makeRmsNorm(Random &random);
Case makeRmsNormGrad(Random &random);
Case makeRmsNormGradScale(Random &random);
Case makeCumsum(Random &random);
Case makeGather(Random &random);
Case makeScatterAdd(Random &random);
Case makeScatterInto(Random &random);
Case makeTakeAlong(Random &random);
Case makeMatmul(Random &random);

Case makeAttention(Random &random);
Case makeAttentionGrad(Random &random);
Case makeRotary(Random &random);

Case makeRoute(Random &random);
Case makeLimitRoutes(Random &random);
Case makeSortRoutes(Random &random);
Case makeArrivedRoutes(Random &random);
Case makeCountSources(Random &random);
Case makePackRows(Random &random);
Case makeUnpackRows(Random &random);
Case makeNoRoutes(Random &random);

Case makeEmpty(Random &random);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_EMIT_GENERATORS_H
