#ifndef LLMC_GRAPH_MOVEMENT
#define LLMC_GRAPH_MOVEMENT
include "dialects/graph/GraphBase.td"

// Defines an op that moves elements: result and operands have one element type.
class Graph_MovementOp<string mnemonic, list<Trait> traits = []>
    : Graph_ComputeOp<mnemonic, ["getEmitClass"], traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_ConstantOp : Graph_MovementOp<"constant", [AllTypesMatch<["value", "result"]>]> {
  let summary = "a small constant (never a weight)";
  let description = [{
    `value` holds the elements and gives the result its type.
    Example: `%r = graph.constant dense<1.0> : tensor<3xf32>`
    Rules: C1 the value is dense.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
}
def Graph_IotaOp : Graph_MovementOp<"iota"> {
  let summary = "the index along `dim`, plus offset";
  let description = [{
    `offset` is 0 if missing; on a part of `dim` it is the global index of the part's first element.
    Example: `%r = graph.iota %o {dim = 0} : (tensor<i64>) -> tensor<3xi64>`
    Rules: C1 dim is in range.
  }];
  let arguments = (ins Optional<Graph_Offset>:$offset, I64Attr:$dim);
  let results = (outs Graph_Tensor:$result);
}
def Graph_ReshapeOp : Graph_MovementOp<"reshape"> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Example: `%r = graph.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32>`
    Rules: C1 as many elements; C2 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand);
  let results = (outs Graph_Tensor:$result);
}
def Graph_TransposeOp : Graph_MovementOp<"transpose"> {
  let summary = "result dim i is operand dim permutation[i]";
  let description = [{
    Example:
    ```mlir
    %r = graph.transpose %x {permutation = array<i64: 1, 0>}
        : (tensor<2x4xf32>) -> tensor<4x2xf32>
    ```
    Rules: C1 one entry per dimension; C2 each dimension once; C3 result shape; C4 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Graph_Tensor:$result);
}
def Graph_BroadcastOp : Graph_MovementOp<"broadcast"> {
  let summary = "NumPy broadcast to the result's shape";
  let description = [{
    Aligns dimensions at the last one; a dimension that is missing or of size 1 repeats.
    Example: `%r = graph.broadcast %x : (tensor<2x4xf32>) -> tensor<3x2x4xf32>`
    Rules: C1 the shapes broadcast; C2 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand);
  let results = (outs Graph_Tensor:$result);
}
def Graph_SliceOp : Graph_MovementOp<"slice"> {
  let summary = "elements starts[i] + k * steps[i] below limits[i] of every dim (steps > 0)";
  let description = [{
    Example:
    ```mlir
    %r = graph.slice %x
        {starts = array<i64: 0, 1>, limits = array<i64: 2, 4>, steps = array<i64: 1, 2>}
        : (tensor<2x4xf32>) -> tensor<2x2xf32>
    ```
    Rules: C1 one entry per dimension; C2 0 <= start <= limit <= size, step >= 1;
    C3 result shape; C4 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$steps);
  let results = (outs Graph_Tensor:$result);
}
def Graph_PadOp : Graph_MovementOp<"pad"> {
  let summary = "zeros before (low), after (high) and between (interior) the elements of every dim";
  let description = [{
    Counts are in elements, one of each kind a dim: `interior` zeros stand between neighbours.
    Example:
    ```mlir
    %r = graph.pad %x {low = array<i64: 1, 0>, high = array<i64: 0, 2>, interior = array<i64: 1, 0>}
        : (tensor<2x4xf32>) -> tensor<4x6xf32>
    ```
    Rules: C1 one entry per dimension; C2 none is negative; C3 result shape; C4 element types agree.
  }];
  let arguments = (ins Graph_Tensor:$operand, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$interior);
  let results = (outs Graph_Tensor:$result);
}
def Graph_ConcatOp : Graph_MovementOp<"concat"> {
  let summary = "operands one after the other along `dim`";
  let description = [{
    Example:
    ```mlir
    %r = graph.concat %x, %x {dim = 0}
        : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    ```
    Rules: C1 at least one operand; C2 dim is in range; C3 shapes agree outside dim;
    C4 result shape; C5 element types agree.
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Graph_Tensor:$result);
}

#endif
