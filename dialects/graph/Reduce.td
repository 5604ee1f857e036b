#ifndef LLMC_GRAPH_REDUCE
#define LLMC_GRAPH_REDUCE
include "dialects/graph/GraphBase.td"

def Graph_ReduceOp : Graph_ComputeOp<"reduce", ["getEmitClass", "getPrecisionRule"]> {
  let summary = "sum, maximum or sum of squares over `dims`, which the result lacks";
  let description = [{
    Example:
    ```mlir
    %m = graph.reduce %x {kind = #graph.reduce_kind<max>, dims = array<i64: 1>}
        : (tensor<2x4xf32>) -> tensor<2xf32>
    ```
    Rules: C1 dims are distinct and in range; C2 result shape is the operand's without them;
    C3 element types agree, or both are floats.
    Equal maxima share the gradient of a maximum evenly.
  }];
  let arguments = (ins Graph_Tensor:$operand, Graph_ReduceKindAttr:$kind, DenseI64ArrayAttr:$dims);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Graph_SoftmaxOp : Graph_ComputeOp<"softmax", ["getEmitClass", "getPrecisionRule"]> {
  let summary = "exp(x - max) / sum over the last dim; a row that is all -inf gives zeros";
  let description = [{
    Subtracts the row's maximum, so that no exponential overflows.
    Example: `%y = graph.softmax %x : (tensor<2x4xf32>) -> tensor<2x4xf32>`
    Rules: C1 there is a last dim; C2 operand and result have one shape.
  }];
  let arguments = (ins Graph_Float:$operand);
  let results = (outs Graph_Float:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Graph_SoftmaxGradOp : Graph_ComputeOp<"softmax_grad", ["getEmitClass"]> {
  let summary = "y * (dy - sum(dy * y)) over the last dim, y the softmax";
  let description = [{
    `result_value` is y, the result of graph.softmax; `cotangent` is dy.
    Example:
    ```mlir
    %dx = graph.softmax_grad %y, %dy
        : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    Rules: C1 there is a last dim; C2 operands and result have one shape.
  }];
  let arguments = (ins Graph_Float:$result_value, Graph_Float:$cotangent);
  let results = (outs Graph_Float:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
