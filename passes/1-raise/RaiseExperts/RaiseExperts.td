def RaiseExperts : Pass<"llmc-raise-experts", "::mlir::func::FuncOp"> {
  let summary = "recognises mixtures of experts";
  let description = [{
    Needs: folded shapes.
    Gives: what follows a `graph.route` and works on the rows of tokens or of their choices is
      written on [token..., choice, feature], in the tokens' own order: a product of each row with
      the matrix of its expert is one `graph.grouped_matmul` with the weights [expert, out, in].
      Rows may be gathered matrices and batched products, or be sorted by expert (another route, of all
      choices, by their experts' numbers), with the products of each expert from and to a running
      sum of counts, and be put back in order. Or a loop is unrolled: each block takes the rows of an
      expert by a mask, and adds its result to them; experts may have parameters of their own, which are
      stacked. What is computed from the numbers of experts and
      places is evaluated for each of them, so that it may be written in any way.
    Keeps: a mixture of which no product is found, and a loop whose blocks differ.
    Example: test/passes/1-raise/raise-experts.mlir
  }];
  let statistics = [Statistic<"numProducts", "products", "grouped products that were recognised">];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
