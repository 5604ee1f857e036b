def ShardExpert : Pass<"llmc-shard-expert", "::mlir::ModuleOp"> {
  let summary = "tactic `expert`: cuts the experts of mixtures over ep, and what one computes over etp";
  let description = [{
    Needs: a function whose routed products are `exchanged` if ep is more than 1 (ExchangeRows);
      parallel.mesh with axes ep and etp.
    Gives: the experts of every weight that only such products read cut over ep; and for every routed
      product whose rows are not cut, the output features cut over etp, then the terms of the next one, as
      in a dense block. Gradients, masters and moments follow.
    Keeps: earlier annotations (refines only). Axes of ep may be those of data, context or tensors: the
      tokens of a product are cut over them as well, by other tactics.
    Errors: sizes that ep or etp ranks cannot share, with valid ones.
    Example: test/passes/3-shard/shard-expert.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
  let statistics = [Statistic<"numSeeds", "seeds", "Products whose experts or features are cut">];
}
