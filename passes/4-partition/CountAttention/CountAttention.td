def CountAttention : Pass<"llmc-count-attention", "::mlir::ModuleOp"> {
  let summary = "counts the FLOPs of attention that ranks of a context have each";
  let description = [{
    Needs: functions of stages on local types.
    Gives: the module's attribute `plan.attention_flops`, one f64 for each coordinate along the axes of
      cp: what one rank there computes in attention, of one micro-batch of each stage, forward and
      backward; two FLOPs for each product and sum, of two products of rows and keys forward and five
      backward (Dao et al., 2022, algorithms 1 and 4), of the pairs that are seen. Of attention with
      positions, those of the rank's rows and keys are computed and compared, pair by pair; of others
      pairs follow from the shapes. Nothing without an attention. Each attention with positions has the
      share of pairs that one rank sees on average (`parallel.visible`).
    Keeps: everything else.
    Example: test/passes/4-partition/count-attention.mlir
  }];
}
