def FoldConstants : Pass<"llmc-fold-constants", "::mlir::func::FuncOp"> {
  let summary = "computes what depends on constants only";
  let description = [{
    Needs: any function of `graph` ops.
    Gives: no op whose operands are all constants (up to 2^24 result elements;
      2^20 where the result is larger than what it is made of, and no mask); no
      arithmetic with a neutral number (x + 0, x * 1, x and true, a choice that
      is always the same); constant operands of elementwise ops without the
      dimensions along which they repeat (a causal mask of [4, 1, 16, 16] is
      [16, 16], a splat is a scalar); `graph.pow` for a power by a number; no
      choice of 0 where a softmax is NaN: its rows are zeros where there is
      nothing to choose from.
    Keeps: results bit for bit, except that folded numbers are rounded once.
    Example: test/passes/1-raise/fold-constants.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
