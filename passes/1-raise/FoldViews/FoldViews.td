def FoldViews : Pass<"llmc-fold-views", "::mlir::ModuleOp"> {
  let summary = "makes each parameter the view of its source that the model uses";
  let description = [{
    Needs: shapes folded, fused weights split.
    Gives: a parameter that is only used in slices that partition it is one
      parameter per slice; one that is only used transposed or reshaped in one
      way is the view that needs no movement; two views of the same elements are
      one parameter, transposed for the second use; parameters of experts that
      are stacked are one, with a view for each. A parameter that only
      matmuls use has its contracted dims first, then the others, in the order
      of the matmul's other operand and result, so that the model does not
      depend on the order in which the file stores a weight.
    Keeps: sources; slices that leave a part of the parameter unread.
    Example: test/passes/1-raise/fold-views.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
