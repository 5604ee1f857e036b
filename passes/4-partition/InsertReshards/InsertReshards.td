def InsertReshards : Pass<"llmc-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "inserts reshards between definitions and uses of different shardings";
  let description = [{
    Needs: annotations that agree with the ops' rules (A1 to A7 of the parallel dialect).
    Gives: `parallel.reshard` wherever a use requires another sharding than the
      definition has, one for all uses that need the same; each with
      `parallel.origin = {node, rule, tactic}`. Axes of size 1 are gone from all
      annotations, so that a mesh of one rank has no reshard at all.
    Keeps: every op; global types.
    A reshard that reduces or cuts is placed behind the definition, one that gathers
    before its first user: a stage boundary between them then carries fewer bytes. What a
    cast has widened moves as it was before, if nothing is summed, and is widened again.
    Example: test/passes/4-partition/insert-reshards.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}
