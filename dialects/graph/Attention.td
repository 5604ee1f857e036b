#ifndef LLMC_GRAPH_ATTENTION
#define LLMC_GRAPH_ATTENTION
include "dialects/graph/GraphBase.td"

def Graph_AttentionOp : Graph_ComputeOp<"attention", ["getFlops", "getEmitClass"]> {
  let summary = "softmax(scale * q k^T + causal mask) v, with the log-sum-exp of each row";
  let description = [{
    q is [batch, rows, heads, dim], k and v are [batch, keys, kv_heads, dim]; head
    h reads kv head h / (heads / kv_heads). With `causal`, row i sees keys j <= i.
    o has q's shape; lse is [batch, rows, heads] (natural logarithm).
    Rules: C1 ranks and shapes agree; C2 heads is a multiple of kv_heads;
    C3 `causal` needs rows = keys.
  }];
  let arguments = (ins Graph_Float:$q, Graph_Float:$k, Graph_Float:$v, F64Attr:$scale, BoolAttr:$causal);
  let results = (outs Graph_Float:$o, Graph_Float:$lse);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Graph_AttentionGradOp : Graph_ComputeOp<"attention_grad", ["getFlops", "getEmitClass"]> {
  let summary = "cotangents of q, k and v; probabilities are recomputed from lse";
  let description = [{ Rules: C1 to C3 of graph.attention; cotangents have their primals' shapes (C1). }];
  let arguments = (ins Graph_Float:$cotangent, Graph_Float:$q, Graph_Float:$k, Graph_Float:$v,
                       Graph_Float:$o, Graph_Float:$lse, F64Attr:$scale, BoolAttr:$causal);
  let results = (outs Graph_Float:$dq, Graph_Float:$dk, Graph_Float:$dv);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
