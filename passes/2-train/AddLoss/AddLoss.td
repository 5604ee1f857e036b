def AddLoss : Pass<"llmc-add-loss", "::mlir::ModuleOp"> {
  let summary = "turns @forward into the forward half of @micro";
  let description = [{
    Needs: `func.func @forward` whose first result is the logits: floats,
      [rows, vocabulary] or [batch, sequence, vocabulary].
    Gives: `@micro` with the argument `graph.input = "labels"` (i64, the logits'
      shape without the last dimension) behind the other inputs, and behind the
      parameters the accumulators `@loss.sum` and `@tokens.sum` : tensor<f32>.
      It returns both with this micro-batch added. Label i belongs to logits
      row i; rows with label -100 take no part.
      The last two results are the logits (`graph.primal = 0`) and the
      cotangent of the summed loss with respect to them (`graph.cotangent = 0`),
      whose ops carry `graph.backward`: exp(logits - lse) - one_hot(labels) on
      rows that count, so only lse is kept beside the logits.
      A result `graph.output = "moe_aux"` (llmc-balance-experts), [batch], is summed in `@auxiliary.sum`, each row's
      number as often as the row has labels that count: the mean over these labels that @update forms and adds to that
      of the cross entropy is, where all rows have as many labels, the mean of the auxiliary losses of the
      rows. Its cotangent is that count. A result `graph.output = "moe_bias"` has the cotangent 1, without
      a scale, and adds nothing to the loss. They are pairs of further numbers.
      Results "moe_lost" (llmc-exchange-rows) and "moe_dropped" (llmc-limit-routes) are counts, summed in `@lost.sum` and
      `@dropped.sum`. `graph.sum_of` of these sums has the name of what they sum.
      `scaled`: the last argument is `graph.scalar = "loss_scale"`, by which the
      cotangent is multiplied, so that small gradients do not vanish in f16
      (Micikevicius et al., 2018).
    Keeps: the ops of the model. Other results of @forward are dropped.
    Example: test/passes/2-train/add-loss.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"scaled", "scaled", "bool", /*default=*/"false", "multiply the cotangent by a scale">,
  ];
}
