// Defines dropout. Its mask is drawn again by whoever needs it, and is no value.
#ifndef LLMC_GRAPH_RANDOM
#define LLMC_GRAPH_RANDOM
include "dialects/graph/GraphBase.td"

def Graph_DropoutOp : Graph_ComputeOp<"dropout", [], [Graph_Broadcasting]> {
  let summary = "0 where a word drawn for the element is below the rate, else x / (1 - rate)";
  let description = [{
    Drops elements as Srivastava et al. (2014) do, scaled so that the expectation stays. The word
    is a function of (key, layer, place, position, element) alone (lib/support/Dropout.h: Philox
    of Salmon et al., 2011), so that every rank, schedule and repetition drops the same ones:
    - `key` is that of the global row of the batch in this step (the loader's `dropout_keys`);
      under a negative one the result is x;
    - `layer` counts the layers, `place` (an attribute) the dropouts of a layer;
    - `position` is the global position in the row, `element` the global index in the token.
    The operands behind x broadcast to it, as in NumPy; 32 bits of each are used, 64 of key. The
    op is linear in x: its gradient is the dropout of the cotangent by the same operands.
    Example:
    ```mlir
    %r = graph.dropout %x, %key, %layer, %position, %element {rate = 0.1, place = 2}
        : (tensor<2x3x4xf32>, tensor<2x1x1xi64>, tensor<i64>, tensor<3x1xi64>, tensor<4xi64>)
          -> tensor<2x3x4xf32>
    ```
    Rules: C1 the result has x's type, and the other operands broadcast to its shape;
    C2 0 <= rate < 1; C3 0 <= place < 2^32.
  }];
  let arguments = (ins Graph_Float:$x, Graph_Index:$key, Graph_Index:$layer,
                       Graph_Index:$position, Graph_Index:$element,
                       F64Attr:$rate, I64Attr:$place);
  let results = (outs Graph_Float:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
