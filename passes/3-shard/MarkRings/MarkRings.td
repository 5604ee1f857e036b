def MarkRings : Pass<"llmc-mark-rings", "::mlir::ModuleOp"> {
  let summary = "lets attention be cut along its sequence, whose keys then go around a ring";
  let description = [{
    Needs: parallel.mesh with axis cp.
    Gives: every attention, forward and backward, as a ring: rows and keys are one dimension that cp
      may cut (Liu et al., 2023, "Ring Attention with Blockwise Transformers"). A causal one gets the
      positions of its rows and keys, for a rank's keys are those of other places at every hop.
    Keeps: all values; annotations (none exist yet). Changes nothing where cp is 1.
    Refuses: cp of several axes, since a ring goes along one; an attention of other keys than its own
      rows; a mask that differs between rows.
    Example: test/passes/3-shard/mark-rings.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let statistics = [Statistic<"numRings", "rings", "Attentions that may be cut along their sequence">];
}
