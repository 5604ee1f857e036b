def SplitBackward : Pass<"llmc-split-backward", "::mlir::ModuleOp"> {
  let summary = "splits the backward of each stage into what the stage before waits for, and the rest";
  let description = [{
    Needs: forward_K and backward_K on local types, with folded layers; what backward computes again
      is decided.
    Gives: backward_K (B) computes what crosses the stage boundary, of the first stage the cotangents that
      its layers pass on; weight_K (W, parallel.procedure = "weight") computes the rest: gradients of
      weights, with the collectives that these alone need (the gathers of a sequence that is cut,
      the scatters of ZeRO). W reads what the forward has kept, and what B has: a value that B
      makes and W needs is a residual of B, of layers a stack of them, numbered behind those of the
      forward. What renames bytes (a reshape) or depends on nothing is in both.
      Qi et al., 2024, "Zero Bubble Pipeline Parallelism", section 2.
    Keeps: every op that is no renaming, in B or in W; bindings; what forward_K computes.
    Example: test/passes/5-schedule/split-backward.mlir
  }];
  let statistics = [
    Statistic<"numKept", "kept", "values that backward keeps for the weight gradients">,
  ];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}
