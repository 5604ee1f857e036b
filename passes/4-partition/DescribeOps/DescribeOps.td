def DescribeOps : Pass<"llmc-describe-ops", "::mlir::ModuleOp"> {
  let summary = "lists the ops of the model with their shardings and origins, for reports";
  let description = [{
    Needs: annotated @micro, or @forward of an inference.
    Gives: module attribute `parallel.ops`: of every op that has a name in the source
      {op, names, layers (the layer of each name, of an op of folded layers), backward,
      operands and results (each {names, type, layout, needed}), cuts (its `parallel.origin`)},
      in program order. Nothing but `llmc explain` reads it.
    Keeps: everything.
    Example: test/passes/4-partition/describe-ops.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}
