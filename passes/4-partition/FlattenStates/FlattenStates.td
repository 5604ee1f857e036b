def FlattenStates : Pass<"llmc-flatten-states", "::mlir::ModuleOp"> {
  let summary = "lays shared-out states side by side and moves them by buckets (ZeRO)";
  let description = [{
    Needs: the functions of stages on local types (after llmc-localize); states that carry
      `parallel.flat_axes` (llmc-shard-state), which are then all masters and moments at least.
    Gives: buckets of parameters of one stage that agree in type, in what else reduces and cuts
      them and in what the update does with them (weight decay, for example). Those of layers have
      a bucket a layer. Of each bucket masters, moments and mean gradients are one flat tensor,
      cut over the data axes into equal parts, with padding of zeros (`parallel.flat`); parameters are
      one, cut at stage 3 alone. At stage 1 gradients are added up whole, in a sum of the step
      of their own, and @update scatters them; from stage 2 on each backward scatters what
      it adds. @update gathers the new weights; at stage 3 each forward and backward gathers the
      weights of a layer before it uses them. The square of the gradient's norm is summed over the
      data axes as well.
    Keeps: everything else, and everything if no state is marked. What is computed stays equal;
      sums over ranks are taken in one order.
    Rules: F1 an op of @update computes each element of a bucket alone, but for the norm (an
      optimizer of whole matrices needs `--zero 0`); F2 gradients of layers are added up in their
      layers.
    Example: test/passes/4-partition/flatten-states.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect", "::llmc::parallel::ParallelDialect"];
  let statistics = [
    Statistic<"numBuckets", "buckets", "flat buckets of all stages">,
    Statistic<"numTensors", "tensors", "parameters in them">,
  ];
}
