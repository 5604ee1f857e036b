def OverlapShards : Pass<"llmc-overlap-shards", "::mlir::ModuleOp"> {
  let summary = "gathers weights ahead of their use, and adds scattered gradients behind";
  let description = [{
    Needs: procedures on stream 0 in the order of their effects; gathers of flat weights into
      scratch, right before their first reader, and reduce-scatters of gradients into scratch,
      before the launch that adds the result (llmc-flatten-states, stages 2 and 3).
    Gives: of each forward and backward, the gathers that stand together (those of a layer) behind
      those `ahead` layers before them, so that they are under way while these layers compute; at
      most `ahead` + 1 layers are gathered at once. The launch that adds scattered gradients stands
      before the next layer's reduce-scatter, so that the next layer computes meanwhile. With
      `ahead` 0 nothing moves.
    Keeps: what each instruction reads; the order of gathers, and of reduce-scatters.
    Example: test/passes/5-schedule/overlap-shards.mlir
  }];
  let options = [
    Option<"ahead", "ahead", "int64_t", "1", "layers whose weights are gathered before their turn">,
  ];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
  let statistics = [
    Statistic<"numGathers", "gathers", "gathers that start earlier">,
    Statistic<"numAdditions", "additions", "additions that wait for the next layer">,
  ];
}
