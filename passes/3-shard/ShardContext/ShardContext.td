def ShardContext : Pass<"llmc-shard-context", "::mlir::ModuleOp"> {
  let summary = "tactic `context`: cuts the sequence of all token-wise values over the axis cp";
  let description = [{
    Needs: a step whose heads the tactic `tensor` has cut; kv heads that RepeatKvHeads has repeated;
      parallel.mesh with axis cp.
    Gives: the sequence of every value that follows from the tokens, cut over the axis cp, and the
      heads of every attention, forward and backward (Jacobs et al., 2023, "DeepSpeed Ulysses"): a
      rank computes its tokens of everything else, and in attention all tokens of its heads. Between
      the two lies an all-to-all. An attention that MarkRings has marked keeps its heads and is cut
      along its sequence, too. Gradients of parameters are partial sums over cp. Changes nothing
      where cp is 1.
    Keeps: earlier annotations (refines only).
    Refuses: a sequence or heads that the ranks cannot share, a step without attention, an inference
      with caches.
    Example: test/passes/3-shard/shard-context.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
  let statistics = [
    Statistic<"numAttentions", "attentions", "attentions whose heads are cut">,
  ];
}
