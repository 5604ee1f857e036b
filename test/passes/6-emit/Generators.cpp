// Every kind of case, by name.
#include "Generators.h"

#include <regex>

namespace llmc::test {

Case inLowType(const Case &test, const std::string &element) {
  bool fourDims = test.text.find("graph.attention") != std::string::npos ||
                  test.text.find("graph.rotary") != std::string::npos;
  std::regex tensor(fourDims ? "(tensor<[0-9]+x[0-9]+x[0-9]+x[0-9]+x)f32>" : "(tensor<[0-9x]*)f32>");
  Case low = test;
  low.text = std::regex_replace(test.text, tensor, "$1" + element + ">");
  for (Argument &argument : low.arguments)
    argument.type = std::regex_replace(argument.type, tensor, "$1" + element + ">");
  low.name += " in " + element;
  return low;
}

std::vector<Generator> generators() {
  return {{"binary", makeBinary},
          {"power", makePower},
          {"unary", makeUnary},
          {"gelu_grad", makeGeluGrad},
          {"dropout", makeDropout},
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
          {"route", makeRoute},
          {"limit_routes", makeLimitRoutes},
          {"sort_routes", makeSortRoutes},
          {"arrived_routes", makeArrivedRoutes},
          {"count_sources", makeCountSources},
          {"pack_rows", makePackRows},
          {"unpack_rows", makeUnpackRows},
          {"no_routes", makeNoRoutes},
          {"empty", makeEmpty},
          {"matmul", makeMatmul}};
}

} // namespace llmc::test
