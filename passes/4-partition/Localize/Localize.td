def Localize : Pass<"llmc-localize", "::mlir::ModuleOp"> {
  let summary = "global types become those of one rank, reshards become collectives";
  let description = [{
    Needs: functions of stages on global types, with annotations and reshards;
      every cut divides its dimension.
    Gives: local types everywhere; for a reshard, in this order:
      unreduced -> cut: `reduce_scatter`; unreduced -> replicated: `all_reduce`;
      cut -> not: `all_gather`; not -> cut: `all_slice`, each with the reshard's
      origin. An attention whose tokens are cut over an axis becomes blocks of it, one for each
      rank of the axis, with a `shift` of keys and values before each block but the first, and of
      their cotangents, in float32, backward. An op whose indexed dimension is cut gets an `axis_offset`.
      Arguments and results keep `parallel.sharding`; ops lose their annotations. What chooses or limits the
      routes of experts gets that of its result, by which the plan tells whose routes a rank has.
    Keeps: states, which stay global.
    Rows of experts are sorted and exchanged with their counts (Experts.h).
    Errors: L1 a cut divides its dimension; L2 ep spans axes along which ranks have different tokens.
    Example: test/passes/4-partition/localize.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}
