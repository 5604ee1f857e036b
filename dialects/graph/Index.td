// Ops that look at an index along a dimension. When that dimension is cut, the
// optional `offset` gives the global index of the part's first element; ids
// outside the part give zeros (partial sums), so the factor is a ReducedSum.
#ifndef LLMC_GRAPH_INDEX
#define LLMC_GRAPH_INDEX
include "dialects/graph/GraphBase.td"

class Graph_IndexOp<string mnemonic> : Graph_ComputeOp<mnemonic, ["getEmitClass"]> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_GatherOp : Graph_IndexOp<"gather"> {
  let summary = "rows of a table: result[i..., j...] = table[ids[i...] - offset, j...]";
  let description = [{
    Ids outside [offset, offset + rows) give zero rows. Rules: C1 result shape is
    ids' shape then table's without its first dim; C2 ids are integers.
  }];
  let arguments = (ins Graph_Tensor:$table, Graph_Int:$ids, Optional<Graph_Offset>:$offset);
  let results = (outs Graph_Tensor:$result);
}
def Graph_ScatterAddOp : Graph_IndexOp<"scatter_add"> {
  let summary = "gradient of gather: result[ids[i...] - offset, j...] += updates[i..., j...], in order of i";
  let arguments = (ins Graph_Int:$ids, Graph_Tensor:$updates, Optional<Graph_Offset>:$offset);
  let results = (outs Graph_Tensor:$result);
}
def Graph_TakeAlongOp : Graph_IndexOp<"take_along"> {
  let summary = "one element of every innermost row: result[i...] = operand[i..., ids[i...] - offset], 0 outside";
  let arguments = (ins Graph_Tensor:$operand, Graph_Int:$ids, Optional<Graph_Offset>:$offset);
  let results = (outs Graph_Tensor:$result);
}
def Graph_OneHotOp : Graph_IndexOp<"one_hot"> {
  let summary = "gradient of take_along: result[i..., j] = values[i...] where j + offset = ids[i...], else 0";
  let arguments = (ins Graph_Int:$ids, Graph_Tensor:$values, Optional<Graph_Offset>:$offset);
  let results = (outs Graph_Tensor:$result);
}
def Graph_MaskTailOp : Graph_IndexOp<"mask_tail"> {
  let summary = "replaces elements whose index along `dim` is `valid` or more by `value`";
  let description = [{
    Puts a reduction's neutral element into padding. `value` may be -inf.
  }];
  let arguments = (ins Graph_Tensor:$operand, Optional<Graph_Offset>:$offset,
                       I64Attr:$dim, I64Attr:$valid, F64Attr:$value);
  let results = (outs Graph_Tensor:$result);
}

#endif
