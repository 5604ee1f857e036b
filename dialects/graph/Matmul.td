#ifndef LLMC_GRAPH_MATMUL
#define LLMC_GRAPH_MATMUL
include "dialects/graph/GraphBase.td"

def Graph_MatmulOp : Graph_ComputeOp<"matmul", ["getFlops", "getEmitClass", "getPrecisionRule"]> {
  let summary = "sum of products over the letters that the result lacks";
  let description = [{
    The equation names every dimension by a letter, as in einsum. Each letter
    stands at most once in each tensor; a result letter stands in an operand.

    Example:
    ```mlir
    %y = graph.matmul "sd,de->se" %x, %w
        : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    ```
    Rules: C1 the equation parses and has the ranks of the tensors; C2 a letter
    has one size; C3 no letter twice in a tensor; C4 result letters come from
    operands; C5 every operand letter is in the other operand or in the result; C6 operands
    have one element type.
  }];
  let arguments = (ins StrAttr:$equation, Graph_Float:$lhs, Graph_Float:$rhs);
  let results = (outs Graph_Float:$result);
  let assemblyFormat = "$equation $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
