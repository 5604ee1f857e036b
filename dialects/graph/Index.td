// Defines the ops that index a dimension. When that dimension is cut, the optional `offset` gives
// the global index of the part's first element; ids outside the part give zeros (partial sums), so
// the factor is a ReducedSum.
#ifndef LLMC_GRAPH_INDEX
#define LLMC_GRAPH_INDEX
include "dialects/graph/GraphBase.td"

class Graph_IndexOp<string mnemonic, list<string> overrides = []>
    : Graph_ComputeOp<mnemonic, !listconcat(["getEmitClass"], overrides)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_GatherOp : Graph_IndexOp<"gather"> {
  let summary = "rows of a table: result[i..., j...] = table[ids[i...] - offset, j...]";
  let description = [{
    Ids outside [offset, offset + rows) give zero rows; `rows` is the table's first dim.
    Example:
    ```mlir
    %r = graph.gather %t, %ids, %o
        : (tensor<5x4xf32>, tensor<2xi64>, tensor<i64>) -> tensor<2x4xf32>
    ```
    Rules: C1 the table has a first dim; C2 result shape is ids' shape then table's
    without its first dim; C3 element types agree. The type constraint says that ids
    are integers.
  }];
  let arguments = (ins Graph_Tensor:$table, Graph_Int:$ids, Optional<Graph_Offset>:$offset);
  let results = (outs Graph_Tensor:$result);
}
def Graph_ScatterAddOp : Graph_IndexOp<"scatter_add"> {
  let summary = "gradient of gather: result[ids[i...] - offset, j...] += updates[i..., j...], in order of i";
  let description = [{
    The result starts as zeros; ids outside [offset, offset + rows) add nothing.
    Example: `%r = graph.scatter_add %ids, %x : (tensor<2xi64>, tensor<2x4xf32>) -> tensor<5x4xf32>`
    Rules: C1 the result has a first dim; C2 updates have ids' shape then the result's
    without its first dim; C3 element types agree, or both are floats.
  }];
  let arguments = (ins Graph_Int:$ids, Graph_Tensor:$updates, Optional<Graph_Offset>:$offset);
  let results = (outs Graph_Tensor:$result);
}
def Graph_TakeAlongOp : Graph_IndexOp<"take_along"> {
  let summary = "one element of every innermost row: result[i...] = operand[i..., ids[i...] - offset], 0 outside";
  let description = [{
    Example: `%r = graph.take_along %x, %ids : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<2xf32>`
    Rules: C1 the operand has a last dim; C2 ids and C3 result have its other dims;
    C4 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand, Graph_Int:$ids, Optional<Graph_Offset>:$offset);
  let results = (outs Graph_Tensor:$result);
}
def Graph_OneHotOp : Graph_IndexOp<"one_hot"> {
  let summary = "gradient of take_along: result[i..., j] = values[i...] where j + offset = ids[i...], else 0";
  let description = [{
    Example: `%r = graph.one_hot %ids, %v : (tensor<2xi64>, tensor<2xf32>) -> tensor<2x4xf32>`
    Rules: C1 the result has a last dim; C2 ids and C3 values have its other dims;
    C4 element types agree.
  }];
  let arguments = (ins Graph_Int:$ids, Graph_Tensor:$values, Optional<Graph_Offset>:$offset);
  let results = (outs Graph_Tensor:$result);
}
def Graph_MaskTailOp : Graph_IndexOp<"mask_tail"> {
  let summary = "replaces elements whose index along `dim` is `valid` or more by `value`";
  let description = [{
    Puts a reduction's neutral element into padding. `value` may be -inf; indices are global: the
    operand's first element along `dim` has index `offset` (0 if missing).
    Example:
    ```mlir
    %r = graph.mask_tail %x, %o {dim = 1, valid = 3, value = 0xFFF0000000000000 : f64}
        : (tensor<2x4xf32>, tensor<i64>) -> tensor<2x4xf32>
    ```
    Rules: C1 dim is in range; C2 valid >= 0; C3 the result has the operand's type.
  }];
  let arguments = (ins Graph_Tensor:$operand, Optional<Graph_Offset>:$offset,
                       I64Attr:$dim, I64Attr:$valid, F64Attr:$value);
  let results = (outs Graph_Tensor:$result);
}
def Graph_CumsumOp : Graph_IndexOp<"cumsum", ["getPrecisionRule"]> {
  let summary = "sums of the elements up to each one along `dim`";
  let description = [{
    `exclusive`: without the element itself; `reverse`: from the last one on.
    Example:
    ```mlir
    %r = graph.cumsum %x {dim = 1, exclusive, reverse}
        : (tensor<1x3x4x2xf32>) -> tensor<1x3x4x2xf32>
    ```
    Rules: C1 dim is in range; C2 the result has the operand's type.
  }];
  let arguments = (ins Graph_Tensor:$operand, I64Attr:$dim, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Graph_Tensor:$result);
}

#endif
