def SinkReductions : Pass<"llmc-sink-reductions", "::mlir::ModuleOp"> {
  let summary = "moves reductions later, where fewer or smaller ones do";
  let description = [{
    Needs: reshards (llmc-insert-reshards).
    Gives: sums of partial sums are added first and reduced once, biases between
      them last; a reduction
      moves behind an op that is linear in its operand (`linearIn` of the op's
      rule) and does not make it larger, and out of layers that only add to it; one
      with several readers is moved if each way ends in an accumulator or in a
      sum that is reduced anyway (the gradients of kv heads that ranks share);
      a gradient's reduction leaves the
      micro-batch: `acc + partial` makes the accumulator itself unreduced, and
      @update reduces it once a step.
    Keeps: all values up to the order of additions. A maximum is never moved,
      nor a sum past an op that adds a reduced value (a bias, a residual).
    Example: test/passes/4-partition/sink-reductions.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
  let statistics = [
    Statistic<"numSunk", "sunk reductions", "reductions moved behind an op">,
    Statistic<"numMerged", "merged reductions", "reductions saved by adding partial sums first">,
    Statistic<"numAccumulated", "accumulated reductions", "reductions moved out of the micro-batch">,
  ];
}
