// Every kind of case, by name.
#include "Generators.h"

namespace llmc::test {

std::vector<Generator> generators() {
  return {{"binary", makeBinary},
          {"power", makePower},
          {"unary", makeUnary},
          {"gelu_grad", makeGeluGrad},
          {"logic", makeLogic},
          {"cast", makeCast},
          {"chain", makeChain},
          {"adamw", makeAdamW},
          {"indexed", makeIndexed},
          {"transpose", makeTranspose},
          {"broadcast", makeBroadcast},
          {"slice", makeSlice},
          {"pad", makePad},
          {"concat", makeConcat},
          {"reshape", makeReshape},
          {"constant", makeConstant},
          {"reduce", makeReduce},
          {"reduce_group", makeReduceGroup},
          {"row_group", makeRowGroup},
          {"softmax", makeSoftmax},
          {"softmax_grad", makeSoftmaxGrad},
          {"layer_norm", makeLayerNorm},
          {"layer_norm_grad", makeLayerNormGrad},
          {"layer_norm_grad_scale", makeLayerNormGradScale},
          {"rms_norm", makeRmsNorm},
          {"rms_norm_grad", makeRmsNormGrad},
          {"rms_norm_grad_scale", makeRmsNormGradScale},
          {"cumsum", makeCumsum},
          {"gather", makeGather},
          {"scatter_add", makeScatterAdd},
          {"scatter_into", makeScatterInto},
          {"take_along", makeTakeAlong},
          {"attention", makeAttention},
          {"attention_grad", makeAttentionGrad},
          {"rotary", makeRotary},
          {"empty", makeEmpty},
          {"matmul", makeMatmul}};
}

} // namespace llmc::test
