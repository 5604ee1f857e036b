def ShardTensor : Pass<"llmc-shard-tensor", "::mlir::ModuleOp"> {
  let summary = "tactic `tensor`: cuts blocks by columns, then rows, over the axis tp";
  let description = [{
    Needs: @micro and @update; parallel.mesh with axis tp.
    Gives: first what the model's file asks for parameters (graph.annotation {cuts} on their
      sources): they are cut so, or stay whole, with tactic "annotation" as origin; requests
      that the mesh cannot fulfil, or that conflict, are errors that name both.
      Then for every matmul with a parameter whose input is not cut yet: its
      output features cut (column cut), if that cut, followed through the ops'
      rules, ends only in sums or maxima: in the contraction of the next parameter (row cut),
      over attention heads, or in the reductions of the loss (vocabulary cut). A
      block in which a statistic of the cut features is used with them again (a norm,
      of one op or several) stays whole: it would need a reduction in its middle as well.
      Then the rows of every table that an input looks up (vocabulary cut), if
      none of its readers needs them whole.
      Everything else follows from the rules: biases, heads, the row cut, tied
      tables, gradients, moments.
    Keeps: earlier annotations (refines only).

    Megatron-LM (Shoeybi et al., 2019), figure 3, found by structure. A cut that
    would be right but does not divide is an error that names the sizes.
    Example: test/passes/3-shard/shard-tensor.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
  let statistics = [Statistic<"numSeeds", "seeds", "Column and vocabulary cuts seeded">,
                    Statistic<"numConflicts", "conflicts", "Uses that need a reshard">];
}
