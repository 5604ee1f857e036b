#ifndef LLMC_GRAPH_ATTENTION
#define LLMC_GRAPH_ATTENTION
include "dialects/graph/GraphBase.td"

class Graph_RowsOp<string mnemonic, list<string> overrides = []>
    : Graph_ComputeOp<mnemonic, !listconcat(["getFlops", "getEmitClass"], overrides)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
// Reads the operands of an attention that may be missing: its mask, which alone is no vector of i64,
// the positions of its rows and keys, and the draws of its dropout.
defvar Graph_FurtherOperands = [{
    bool hasMask() {
      if (getFurther().empty())
        return false;
      auto type = ::mlir::cast<::mlir::RankedTensorType>(getFurther().front().getType());
      return type.getRank() > 1 || !type.getElementType().isInteger(64);
    }
    // Returns null if there is none.
    ::mlir::Value getMask() { return hasMask() ? getFurther().front() : ::mlir::Value(); }
    ::mlir::MutableOperandRange getMaskMutable() { return getFurtherMutable().slice(0, hasMask()); }
    // Returns the positions of rows and of keys; empty without.
    ::mlir::OperandRange getPositions() {
      ::mlir::OperandRange rest = getFurther().drop_front(hasMask());
      return rest.take_front(rest.size() == 2 || rest.size() == 7 ? 2 : 0);
    }
    ::mlir::OperandRange getDraws() {
      return getFurther().drop_front(hasMask() + getPositions().size());
    }
}];
def Graph_AttentionOp : Graph_RowsOp<"attention", ["getPrecisionRule"]> {
  let summary = "softmax of masked scale * q k^T, times v, with the log-sum-exp of each row";
  let description = [{
    Attention is that of Vaswani et al. (2017), with grouped heads (Ainslie et al., 2023) and, for
    the gradient, the log-sum-exp of each row (FlashAttention: Dao et al., 2022; Dao, 2023).
    q is [batch, rows, heads, dim], k and v are [batch, keys, kv_heads, dim]; head
    h reads kv head h / (heads / kv_heads).
    score(i, j) = scale * q_i . k_j; `softcap` C > 0 makes it C * tanh(score / C).
    With `causal`, row i sees keys j <= i + offset (offset: how many keys came
    before the first row) and, with `window`, only those with j > i + offset - window.
    `mask` [batch | 1, heads | 1, rows | 1, keys] is i1 (true: seen) or a float that
    is added to the score; nothing flows back to it.
    The two i64 vectors that may follow the mask, positions of the rows [rows] and of the keys [keys],
    stand for i and j in `causal` and `window`.
    With `dropout` > 0, softmax's weights are dropped at this rate before they meet v, as
    graph.dropout drops them (lse is without). The draws that follow these, all i64, are key
    [batch], layer [], position [rows], and head [heads] and place of the key [keys], of which the
    sum counts the element: for global head h and key j it is h * (number of keys) + j.
    o has q's shape; lse is [batch, rows, heads] (natural logarithm). A row that
    sees nothing has o = 0 and lse = -inf.
    `ring`: rows and keys are one dimension, which may be cut: ranks exchange keys and values in a
    ring (Liu et al., 2023, "Ring Attention with Blockwise Transformers").
    Example:
    ```mlir
    %o, %lse = graph.attention %q, %k, %v, %mask
        {scale = 0.5, causal = true, offset = 2, window = 4, softcap = 50.0}
        : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x1x3x5xi1>)
          -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
    ```
    Rules: C1 ranks and shapes agree; C2 heads is a multiple of kv_heads;
    C3 offset >= 0, window >= 1 and only with `causal`, softcap >= 0; C4 mask has
    4 dimensions, each of the size above; C5 mask is i1 or a float; C6 0 <= dropout < 1,
    0 <= place < 2^32, and there are five draws, of the shapes above, if dropout > 0, else none;
    C7 positions have the shapes above and only with `causal`; C8 a ring has as many keys as rows, no
    mask that differs between rows, and positions if it is causal.
  }];
  let arguments = (ins Graph_Float:$q, Graph_Float:$k, Graph_Float:$v,
                       Variadic<Graph_Tensor>:$further, F64Attr:$scale, BoolAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$offset, OptionalAttr<I64Attr>:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$place, UnitAttr:$ring);
  let results = (outs Graph_Float:$o, Graph_Float:$lse);
  let extraClassDeclaration = Graph_FurtherOperands;
  let builders = [
    OpBuilder<(ins "::mlir::TypeRange":$types, "::mlir::Value":$q, "::mlir::Value":$k,
                   "::mlir::Value":$v, "::llvm::APFloat":$scale, "bool":$causal,
                   CArg<"::mlir::Value", "{}">:$mask, CArg<"int64_t", "0">:$offset,
                   CArg<"::std::optional<int64_t>", "::std::nullopt">:$window,
                   CArg<"double", "0.0">:$softcap)>,
    OpBuilder<(ins "::mlir::TypeRange":$types, "::mlir::Value":$q, "::mlir::Value":$k,
                   "::mlir::Value":$v, "::mlir::FloatAttr":$scale, "::mlir::BoolAttr":$causal),
              "build($_builder, $_state, types, q, k, v, scale.getValue(), causal.getValue());">,
    OpBuilder<(ins "::mlir::Type":$o, "::mlir::Type":$lse, "::mlir::Value":$q, "::mlir::Value":$k,
                   "::mlir::Value":$v, "::mlir::FloatAttr":$scale, "::mlir::BoolAttr":$causal),
              "build($_builder, $_state, ::mlir::TypeRange({o, lse}), q, k, v, scale, causal);">];
}
def Graph_AttentionGradOp : Graph_RowsOp<"attention_grad"> {
  let summary = "cotangents of q, k and v; probabilities are recomputed from lse";
  let description = [{
    Computes, with p = exp(score - lse) and `cotangent` the one of o, dv += p * cotangent and the
    cotangent p * (cotangent . v - cotangent . o) of each score (Dao et al., 2022, algorithm 4). With
    dropout, p of dv and the first product take its factor. Attributes and draws are those of the
    graph.attention.
    Example:
    ```mlir
    %dq, %dk, %dv = graph.attention_grad %do, %q, %k, %v, %o, %lse {scale = 0.5, causal = true}
        : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>,
           tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
          -> (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>)
    ```
    Rules: C1 to C8 of graph.attention; cotangents have their primals' shapes (C1).
  }];
  let arguments = (ins Graph_Float:$cotangent, Graph_Float:$q, Graph_Float:$k, Graph_Float:$v,
                       Graph_Float:$o, Graph_Float:$lse, Variadic<Graph_Tensor>:$further,
                       F64Attr:$scale, BoolAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$offset, OptionalAttr<I64Attr>:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$place, UnitAttr:$ring);
  let results = (outs Graph_Float:$dq, Graph_Float:$dk, Graph_Float:$dv);
  let extraClassDeclaration = Graph_FurtherOperands;
}
def Graph_RotaryOp : Graph_RowsOp<"rotary", ["getPrecisionRule"]> {
  let summary = "rotates pairs of each head's elements by the angle of the row (Su et al., 2021)";
  let description = [{
    x is [batch, rows, heads, dim]; cos and sin are [batch | 1, rows, half].
    Pair i < half is (x[i], x[i + half]) or, `interleaved`, (x[2i], x[2i + 1]); (a, b)
    becomes (a cos[i] - b sin[i], b cos[i] + a sin[i]). Elements from 2 * half on are
    copied. `inverse` negates sin (the gradient). cos and sin get no gradient.
    Example:
    ```mlir
    %r = graph.rotary %x, %cos, %sin {interleaved, inverse}
        : (tensor<1x3x4x2xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x4x2xf32>
    ```
    Rules: C1 ranks are 4 and 3; C2 cos and sin have one shape, x's batch or 1 and
    x's rows; C3 1 <= half and 2 * half <= dim; C4 the result has x's type.
  }];
  let arguments = (ins Graph_Float:$x, Graph_Float:$cos, Graph_Float:$sin,
                       UnitAttr:$interleaved, UnitAttr:$inverse);
  let results = (outs Graph_Float:$result);
}

#endif
