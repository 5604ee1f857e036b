def FuseKernels : Pass<"llmc-fuse-kernels", "::mlir::ModuleOp"> {
  let summary = "puts ops that one kernel can compute into groups";
  let description = [{
    Needs: functions of graph ops with local types, layers folded or not.
    Gives: plan.group ops. Each holds elementwise ops over one iteration space and the
      reductions of its rows (norms, softmax, sums), so that what lies between them
      never goes to memory. Sums over rows (gradients of biases and scales) become
      sums of a few rows at a time inside the group that computes what they sum, and a
      small sum of those; a sum of everything becomes sums of rows and their sum.
    Keeps: values (sums may add in another order), sources of every op, the order of ops
      as far as groups allow.

    Two ops join if one reads the other, or both read one tensor of the whole
    iteration space, and no op between them lies outside of the group. Nothing is
    computed twice but constants, indices, slices and broadcasts. No decision depends
    on sizes, so a scaled-down model is cut like its original.

    Without `fuse` every op stays a kernel of its own, so that an op has the same bits
    wherever a plan runs it: a proof that two plans compute the same can ask for equality.
    Example: test/passes/5-schedule/fuse-kernels.mlir
  }];
  let options = [
    Option<"fuse", "fuse", "bool", /*default=*/"true",
           "Joins ops into kernels; else each is one.">
  ];
  let dependentDialects = ["::llmc::plan::PlanDialect", "::llmc::graph::GraphDialect"];
  let statistics = [
    Statistic<"numGroups", "groups", "Groups built">,
    Statistic<"numGrouped", "grouped", "Ops in groups">
  ];
}
