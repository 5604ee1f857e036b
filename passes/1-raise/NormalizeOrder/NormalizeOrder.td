def NormalizeOrder : Pass<"llmc-normalize-order", "::mlir::ModuleOp"> {
  let summary = "writes the function in the one order that its structure gives";
  let description = [{
    Needs: pure ops.
    Gives: equal expressions once, nothing unused; operands of sums, products and
      matmuls in a fixed order (more dims first; then values computed from float inputs or
      parameters, other inputs and computed values, parameters, constants; then the one of
      smaller depth, so a residual is on the left); matmul letters by position; ops in
      post-order from the results, in front those that depend on no parameter, and those
      that are computed from parameters alone for several layers (a bias of distances);
      arguments (inputs, then parameters) in order of first use; states `s0`, `s1`, ...;
      no unused argument, state or source.
    Keeps: what is computed. Nothing depends on names, on locations or on the
      order of the input: modules that differ only in these come out equal.
    Example: test/passes/1-raise/normalize-order.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
