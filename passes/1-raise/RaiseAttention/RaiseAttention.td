def RaiseAttention : Pass<"llmc-raise-attention", "::mlir::func::FuncOp"> {
  let summary = "recognises softmax(q k^T) v";
  let description = [{
    Needs: constants and shapes folded, so that transposes are in equations and
      masks are constants, or ops on constants and positions.
    Gives: `graph.attention` on `[batch, rows, heads, dim]` for
      softmax(scale * q k^T + mask) v. Of the dims that only queries have, the last are
      rows, the others heads that share keys. A number behind a mask multiplies the mask
      too. The scale is the product of the numbers between the softmax and q and k
      (1/sqrt(dim), where it is that up to f32 rounding). Only its values define a mask:
      zeros (or true) at and below the diagonal and at most -1e4 (or false) above it, in
      all rows and heads, is `causal`; zeros everywhere is no mask. All rows are read, as
      runs of equal numbers: a mask of 131,072 x 131,072 is never held. Where up to 16
      rules hold for rows one after the other (a prefix, packed documents), each part is
      an attention of its own. In inference, padding that an input gives beside a rule
      stays i1, one a key, even if a finite number hid it; rows that see no key then get
      the mean of v.
    Keeps: an attention with any other mask as it is; VerifyRaised remarks on it.
    Example: test/passes/1-raise/raise-attention.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
