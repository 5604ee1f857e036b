def SinkReductions : Pass<"llmc-sink-reductions", "::mlir::ModuleOp"> {
  let summary = "moves reductions later, where fewer or smaller ones suffice";
  let description = [{
    Needs: reshards (llmc-insert-reshards).
    Gives: sums of partial sums are added first and reduced once, biases between
      them last. Per axis, reductions move behind ops that are linear in their
      operand (`linearIn` of the op's rule) to where all of them together take the
      fewest elements, then are the fewest, as late as that allows: a minimum cut
      through the linear ops, which may fan out and meet again (a rotary embedding,
      a norm's gradient, the gradients of kv heads that ranks share). A sum that is
      reduced anyway takes another partial term at no cost, and so does an
      accumulator. Reductions leave layers that only add to a carried value, and
      the micro-batch: `acc + partial` makes the accumulator itself unreduced, and
      @update reduces it once a step.
    Keeps: all values up to the order of additions. A maximum is never moved,
      nor a sum past an op that adds a reduced value (a bias, a residual). Together
      the reductions of a block never take more elements than before.
    Example: test/passes/4-partition/sink-reductions.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
  let statistics = [
    Statistic<"numSunk", "sunk reductions", "reductions moved behind an op">,
    Statistic<"numMerged", "merged reductions", "reductions saved by adding partial sums first">,
    Statistic<"numAccumulated", "accumulated reductions", "reductions moved out of the micro-batch">,
  ];
}
