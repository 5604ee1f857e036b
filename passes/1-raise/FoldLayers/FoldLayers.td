def FoldLayers : Pass<"llmc-fold-layers", "::mlir::ModuleOp"> {
  let summary = "folds equal layers into graph.repeat";
  let description = [{
    Needs: the order of NormalizeOrder.
    Gives: each run of N >= 2 equal groups of ops, of which each continues what
      the one before it computed and holds a matmul, is one `graph.repeat`. A value
      that one group passes to the next is carried; parameters of equal type that only
      their group uses are stacked (`graph.state ... stacked`, a view per layer);
      values that are the same in every group are captured; scalars are cloned into
      the body; inputs and small constants that differ from group to group are
      concatenated and stacked, and what is used of every group by itself (a
      cache) is a slice of a stacked result. The pass takes the cut that folds most
      ops, where each value carried beyond the first counts against it like a layer,
      and repeats this until nothing folds. What is left around an attention, from one
      point of the residual stream to another, is a repeat of 1. `graph.model.layers`
      counts the layers that the repeats run (1 if nothing folds): a group of several
      attentions holds as many.
    Keeps: the order of ops; the source names of each layer (views, fused locations).
    Example: test/passes/1-raise/fold-layers.mlir
  }];
  let statistics = [Statistic<"numRepeats", "repeats", "Repeats built">];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
