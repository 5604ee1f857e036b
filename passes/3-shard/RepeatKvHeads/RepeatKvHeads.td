def RepeatKvHeads : Pass<"llmc-repeat-kv-heads", "::mlir::ModuleOp"> {
  let summary = "gives every tp rank kv heads of its own, where there are fewer than ranks";
  let description = [{
    Needs: parallel.mesh with axis tp.
    Gives: for every attention of several kv heads that tp does not divide, though it
      divides the heads: as many kv heads as the least common multiple of both, each
      a repeat, looked up by `graph.gather` {parallel.whole}, of the one it stands
      for; their gradients are added up by `graph.scatter_add`. The same where there is no
      attention op: kv heads that are broadcast to [.., kv heads, repeats, ..] and merged
      to heads, and the sums over repeats of the backward pass.
    Keeps: all values; attention of one kv head, which is shared by all ranks as
      it is; annotations (none exist yet).

    A rank then computes all kv heads (they are few) but attends with its own
    alone: the lookup is cut along its ids, so it moves no data between ranks, and
    the gradients of the heads are partial sums.
    Example: test/passes/3-shard/repeat-kv-heads.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let statistics = [Statistic<"numRepeated", "repeated", "Attentions whose kv heads are repeated">,
                    Statistic<"numRegrouped", "regrouped", "Broadcasts and sums over repeats, regrouped">];
}
