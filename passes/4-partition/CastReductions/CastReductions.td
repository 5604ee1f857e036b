def CastReductions : Pass<"llmc-cast-reductions", "::mlir::ModuleOp"> {
  let summary = "reduces gradients over data-parallel ranks in another type (--reduce-dtype)";
  let description = [{
    Needs: the functions of stages on local types, after llmc-flatten-states.
    Gives: every sum of gradients over data axes (an all-reduce of an accumulator in @update, a
      reduce-scatter in @update or @backward) has its operand and its result in `element`: a cast
      before, a cast behind, no other op between. What casts a sum to `element` anyway reads it as it
      is, so that no wide sum is rounded between. Sums of stacked accumulators are written layer by
      layer, so that one layer's can start before another's.
    Keeps: sums that have this type already, and everything else: accumulators, sums over other axes
      alone, the loss, counts of tokens and the norm keep their types.
    Rules: G1 `element` is f32, bf16 or f16, or empty, which keeps everything.
    Example: test/passes/4-partition/cast-reductions.mlir
  }];
  let options = [
    Option<"element", "element", "std::string", /*default=*/"\"\"", "f32, bf16 or f16; empty: leaves sums as they are">,
  ];
  let dependentDialects = ["::llmc::graph::GraphDialect", "::llmc::parallel::ParallelDialect"];
  let statistics = [
    Statistic<"numSums", "sums", "reductions of gradients in the type">,
  ];
}
